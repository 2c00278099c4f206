"""Compiled writing and reading of sparse payloads: the same bytes and numbers as the codec, and the same distrust."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra.errors import PayloadError
from tightwire.algebra.tensors import Spec
from tightwire.algebra.world import At
from tightwire.codecs.topk import TopK, topk
from tightwire.kernels.cpu_wire import read, write

pytest.importorskip("numba")
SPEC = Spec.pack([("a", (300, 400)), ("none", (0,)), ("b", (50_000,)), ("c", (7, 3))])
FORMATS = (topk(0.01), topk(0.01, gaps="rice"), topk(0.01, values="log8", gaps="rice"))


def picked(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    index_K = torch.randperm(SPEC.numel, generator=generator)[:count].sort().values
    value_K = torch.randn(count, generator=generator) * torch.rand(count, generator=generator) ** 8
    value_K[torch.rand(count, generator=generator) < 0.05] = 0.0
    return index_K, value_K


@pytest.mark.parametrize("codec", FORMATS, ids=str)
@given(count=st.sampled_from([1, 2, 3, 100, 5000]), seed=st.integers(0, 50))
def test_bytes_and_numbers_are_those_of_the_codec(codec: TopK, count: int, seed: int) -> None:
    index_K, value_K = picked(count, seed)
    wire, rounded_K = write(codec, index_K, value_K, SPEC, At())
    expected_wire, expected_K = codec.write(index_K, value_K, SPEC, At())
    assert torch.equal(wire, expected_wire)
    assert torch.equal(rounded_K, expected_K)
    for fast, slow in zip(read(codec, wire, SPEC, At()), codec.read(wire, SPEC, At()), strict=True):
        assert torch.equal(torch.from_numpy(fast), slow)


@pytest.mark.parametrize("codec", FORMATS, ids=str)
@given(seed=st.integers(0, 200), changes=st.integers(1, 3))
def test_damaged_bytes_are_read_as_the_codec_reads_them_or_refused_by_both(
    codec: TopK, seed: int, changes: int
) -> None:
    wire = codec.write(*picked(40, 1), SPEC, At())[0]
    generator = torch.Generator().manual_seed(seed)
    where = torch.randint(len(wire), (changes,), generator=generator)
    wire[where] = torch.randint(256, (changes,), generator=generator).to(torch.uint8)
    try:
        index_T, value_T = codec.read(wire, SPEC, At())
    except PayloadError:
        with pytest.raises(PayloadError):
            read(codec, wire, SPEC, At())
        return
    index, value = read(codec, wire, SPEC, At())
    assert torch.equal(torch.from_numpy(index), index_T)
    assert torch.equal(torch.from_numpy(value), value_T) or bool(value_T.isnan().any())
