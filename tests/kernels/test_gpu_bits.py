"""What can be said of the GPU's packing without a GPU: its tables, for whom it is, and who else may offer passes."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from tightwire.algebra.codec import Codec, DenseSent, Payload, drive
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.onebit import onebit
from tightwire.codecs.passes import offer, passes_for, withdraw
from tightwire.codecs.terngrad import terngrad
from tightwire.kernels.gpu_bits import _BLOCK, _buckets, gpu_passes, tables

SPEC = Spec.pack([("z", (2, 0)), ("w", (40, 50)), ("b", (40,)), ("n", (0, 3)), ("c", (3, 7, 11)), ("s", ())])


def test_every_element_finds_its_row() -> None:
    t = tables(SPEC, torch.device("cpu"))
    found = torch.full((SPEC.numel,), -1)
    for i in range(SPEC.numel):
        for s in range(int(t.first[i // _BLOCK]), int(t.last[i // _BLOCK]) + 1):
            if t.begin[s] <= i < t.end[s]:
                found[i] = t.base[s] + (i - t.begin[s]) // t.width[s]
    want: list[int] = []
    before = 0
    for s in SPEC.segments:
        want += [before + row for row in range(s.rows) for _ in range(s.row_numel)]
        before += s.rows
    assert found.tolist() == want and want[0] == 2  # "z" has two rows and no elements
    assert t.blocks == -(-SPEC.numel // _BLOCK)


def test_buckets_begin_anew_at_every_tensor() -> None:
    assert _buckets(SPEC, 512, torch.device("cpu"))[0].tolist() == [0, 0, 4, 5, 5, 6]
    assert _buckets(SPEC, 10_000, torch.device("cpu"))[0].tolist() == [0, 0, 1, 2, 2, 3]


def test_a_block_walks_only_what_lies_in_it() -> None:
    t = tables(Spec.pack([(f"t{n}", (_BLOCK,)) for n in range(4)]), torch.device("cpu"))
    assert t.first.tolist() == t.last.tolist() == [0, 1, 2, 3]


def test_a_cpu_does_without_and_so_does_a_small_bucket() -> None:
    assert gpu_passes(Bucket.zeros(SPEC)) is None
    assert passes_for(Bucket.zeros(SPEC)) is None


class Shouting:
    """Passes that can be recognised."""

    def signs(self, x: Bucket, mean_R2: Tensor) -> tuple[Tensor, Tensor]:
        return torch.full((-(-x.spec.numel // 8),), 255, dtype=torch.uint8), torch.full_like(x.flat, 7.0)

    def add_signs_(self, out: Bucket, byte_B: Tensor, mean_R2: Tensor) -> None:
        out.flat += 7

    def ternary(self, x: Bucket, value_N: Tensor, scale_S: Tensor, at: At) -> tuple[Tensor, Tensor]:
        return torch.zeros(-(-x.spec.numel // 4), dtype=torch.uint8), torch.full_like(x.flat, 7.0)

    def add_ternary_(self, out: Bucket, byte_B: Tensor, scale_S: Tensor) -> None:
        out.flat += 7


@pytest.mark.parametrize("codec", [onebit(), terngrad()])
def test_codecs_take_what_is_offered_until_it_is_withdrawn(codec: Codec) -> None:
    def maker(x: Bucket) -> Shouting | None:
        return Shouting() if x.spec == SPEC else None

    x = Bucket(torch.randn(SPEC.numel), SPEC)
    own = drive(codec.encode(x, {}, At()), lambda ask: ask.tensor).payload
    offer(maker)
    try:
        encoded = drive(codec.encode(x, {}, At()), lambda ask: ask.tensor)
        out = Bucket.zeros(SPEC)
        codec.decode_(out, Payload(encoded.payload.wire.clone()), {}, At())
    finally:
        withdraw(maker)
    assert isinstance(encoded.sent, DenseSent)
    assert bool((encoded.sent.flat == 7).all()) and bool((out.flat == 7).all())
    again = drive(codec.encode(x, {}, At()), lambda ask: ask.tensor).payload
    assert torch.equal(own.wire, again.wire) and not torch.equal(own.wire, encoded.payload.wire)


@pytest.mark.skipif(find_spec("triton") is None, reason="triton, which interprets its kernels, is not installed")
def test_the_kernels_interpreted_do_as_the_codecs_themselves() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.interpreted"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
