"""A copy past the cache is a copy, wherever it begins and however long it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightwire.kernels.numba_stream import stream


@given(st.integers(0, 1000), st.integers(0, 130), st.integers(0, 70), st.integers(0, 2**32 - 1))
def test_every_byte_arrives_and_no_other_is_touched(size: int, to: int, at: int, seed: int) -> None:
    source = np.random.default_rng(seed).integers(1, 256, at + size, dtype=np.uint8)
    source.setflags(write=False)  # as Arrow's buffers are
    into = np.zeros(to + size + 64, dtype=np.uint8)
    stream(into[to : to + size], source[at:])
    assert (into[to : to + size] == source[at:]).all()
    assert not into[:to].any() and not into[to + size :].any()


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="5 bytes do not fill 4"):
        stream(np.zeros(4, dtype=np.uint8), np.zeros(5, dtype=np.uint8))
