"""Positions as relative indices: how many zeros stand between one stored code and the next, in r bits.

    gap g ≥ 1 from the position before (the first from −1):
    while g > 2ʳ: store (2ʳ − 1, code 0), g ← g − 2ʳ;   store (g − 1, code)

Han, Mao, Dally: Deep Compression. ICLR 2016, arXiv 1510.00149, figure 2. A filler is a stored zero, so code 0 is among
the coded symbols.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tightwire.algebra.errors import PayloadError
from tightwire.compress.code.protocol import Codes
from tightwire.kernels.entropy import entropy

MOST_WIDTH = 12


def relative(code_N: Codes, width: int) -> tuple[NDArray[np.uint16], Codes]:
    """Stored pairs (gap_T, code_T) of the codes that are not zero, fillers included; gaps of ``width`` bits.

    >>> code_N = np.zeros(20, np.uint8); code_N[[1, 2, 15]] = 3, 1, 2
    >>> relative(code_N, 3)
    (array([1, 0, 7, 4], dtype=uint16), array([3, 1, 0, 2], dtype=uint8))
    """
    index_K = np.flatnonzero(code_N)
    gap_K = np.diff(index_K, prepend=-1) - 1
    filler_K = gap_K >> width
    end_K = np.cumsum(filler_K + 1)
    stored = int(end_K[-1]) if len(end_K) else 0
    gap_T = np.full(stored, (1 << width) - 1, np.uint16)
    code_T = np.zeros(stored, code_N.dtype)
    gap_T[end_K - 1] = gap_K & ((1 << width) - 1)
    code_T[end_K - 1] = code_N[index_K]
    return gap_T, code_T


def absolute(gap_T: Codes, code_T: Codes, numel: int) -> Codes:
    """The codes at all positions; refuses pairs that lead beyond ``numel``."""
    code_N = np.zeros(numel, code_T.dtype)
    if not entropy().scatter(gap_T, code_T, code_N):
        raise PayloadError(f"gaps lead beyond the last of {numel} positions")
    return code_N


def fillers(code_N: Codes, width: int) -> int:
    """How many fillers gaps of ``width`` bits take."""
    index_K = np.flatnonzero(code_N)
    return int(((np.diff(index_K, prepend=-1) - 1) >> width).sum()) if len(index_K) else 0
