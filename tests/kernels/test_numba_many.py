"""Marking a large part of a tensor: exactly the largest, also where many are equal or the sample misleads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tightwire.codecs.bitpack import pack_bits
from tightwire.codecs.topk import largest

many = pytest.importorskip("tightwire.kernels.numba_many")


def marked(v: np.ndarray, wanted: int, at: int) -> tuple[np.ndarray, np.ndarray]:
    words, values = np.zeros((at + len(v)) // 64 + 2, np.uint64), np.empty(wanted + 1, np.float32)
    many.mark(v, wanted, at, words, values)
    return words, values[:wanted]


@given(
    numel=st.sampled_from([1, 5, 64, 200, 300_000]), share=st.sampled_from([0.0625, 0.25, 1.0]),
    digits=st.sampled_from([0, 1, 6]), at=st.sampled_from([0, 3, 64, 100]), seed=st.integers(0, 20),
)  # fmt: skip
def test_the_largest_are_marked_and_come_back(numel: int, share: float, digits: int, at: int, seed: int) -> None:
    v = np.round(np.random.default_rng(seed).standard_normal(numel), digits).astype(np.float32)
    wanted = max(1, int(share * numel))
    words, values = marked(v, wanted, at)
    index_K = largest(torch.from_numpy(v), wanted)
    kept_N = torch.zeros(at + numel, dtype=torch.bool)
    kept_N[at + index_K] = True
    expected = pack_bits(kept_N).numpy()
    assert (words.view(np.uint8)[: len(expected)] == expected).all()
    assert (values == v[index_K.numpy()]).all()
    assert many.count_marked(words, at + numel) == wanted
    out = np.zeros(numel, np.float32)
    begins, shifts = np.array([at, at + numel]), np.array([-at])
    many.add_marked(out, begins, shifts, words, values, np.float32(2))
    assert (out[index_K.numpy()] == 2 * values).all()
    many.zero_marked(out, begins, shifts, words)
    assert not out.any()


def test_a_sample_that_misleads_costs_time_only() -> None:
    v = np.zeros(1 << 20, np.float32)
    v.reshape(-1, 16)[1::2] = np.random.default_rng(0).standard_normal((1 << 15, 16))  # every other line
    v.reshape(-1, 16)[:: (1 << 16) // 4096] = 5.0  # just the lines that are sampled
    _, values = marked(v, 1 << 18, 0)
    assert (values == v[largest(torch.from_numpy(v), 1 << 18).numpy()]).all()


def test_bits_beyond_the_end_are_noticed() -> None:
    words = many.words_of(np.array([0b111], np.uint8))
    assert many.count_marked(words, 3) == 3
    assert many.count_marked(words, 2) == -1
