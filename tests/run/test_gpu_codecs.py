"""Codecs that ask a GPU for all tensors at once send what they send on a CPU, up to the last bits of their scales."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tightwire.algebra.codec import Codec, Payload, drive
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.onebit import onebit
from tightwire.codecs.qsgd import qsgd
from tightwire.codecs.sign import sign
from tightwire.codecs.stretches import stretches
from tightwire.codecs.terngrad import terngrad
from tightwire.codecs.threshold import threshold

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")]
SHAPES = [("w", (30, 50)), ("b", (30,)), ("none", (0, 3)), ("few", (3, 1)), ("c", (64, 3, 7, 7)), ("s", ())]
CODECS = [onebit(), terngrad(), qsgd(), qsgd(4, bucket=8, norm="l2"), sign(), sign("row"), threshold(1.0, most=0.2)]


def added(codec: Codec, flat: Tensor, device: str, step: int) -> Tensor:
    spec = Spec.pack(SHAPES, device=device)
    x, at = Bucket(flat.to(device), spec), At(step=step)
    encoded = drive(codec.encode(x, codec.init(spec), at), lambda ask: ask.tensor)
    out = Bucket.zeros(spec)
    codec.decode_(out, Payload(encoded.payload.wire.clone()), codec.init(spec), at)
    return out.flat.cpu()


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_a_gpu_adds_what_a_cpu_adds(codec: Codec) -> None:
    for step in range(4):
        flat = torch.randn(Spec.pack(SHAPES).numel, generator=torch.Generator().manual_seed(step)) * 10.0 ** (step - 1)
        here, there = added(codec, flat, "cpu", step), added(codec, flat, "cuda", step)
        differ = ~torch.isclose(here, there, rtol=1e-4, atol=1e-6 * float(flat.abs().max()))
        assert int(differ.sum()) <= 2, step  # a draw just at its edge may fall on the other side


def test_it_asks_at_once() -> None:
    assert stretches(Spec.pack(SHAPES, device="cuda"), torch.device("cuda"), "row") is not None
