"""How many bytes codes will take: the entropy of their frequencies, before any coder has seen them.

    bytes ≈ N·H(p) / 8 + 2·K

p counts the zeros of pruned weights too, so H holds places and values in one. A coder that knows rows and columns goes
below this, Huffman's stays above; a search that must be exact is given the coder's own size instead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tightwire.compress.shared_weights import SharedWeights


def entropy_bits(code_N: NDArray[np.integer]) -> float:
    """Bits a symbol, by frequencies alone.

    >>> entropy_bits(np.array([0, 0, 1, 2]))
    1.5
    """
    if not len(code_N):
        return 0.0
    count = np.bincount(code_N)
    share = count[count > 0] / len(code_N)
    return float(-(share * np.log2(share)).sum()) + 0.0


def estimate_nbytes(shared: SharedWeights) -> int:
    """The bytes of a layer: entropy-coded codes, and a codebook of half floats."""
    return int(np.ceil(shared.numel * entropy_bits(shared.code_N) / 8)) + 2 * len(shared.codebook_K)
