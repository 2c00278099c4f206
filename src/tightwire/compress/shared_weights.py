"""One tensor after pruning and weight sharing: a code for every position, and what the codes stand for.

    w_i = 0                       where code_i = 0 (pruned)
    w_i = codebook[code_i − 1]    elsewhere

Han, Mao, Dally: Deep Compression. ICLR 2016, arXiv 1510.00149, sections 2 and 3. Code 0 is not a centroid: pruned stays
pruned, whatever the centroids are trained to.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tightwire.compress.errors import CompressError

MOST_CENTROIDS = (1 << 16) - 1


@dataclass(frozen=True, eq=False)
class SharedWeights:
    """A tensor as codes and centroids. N positions, row-major; K centroids, ascending.

    >>> SharedWeights((2, 2), np.array([0, 2, 1, 0], np.uint8), np.array([-0.5, 0.25], np.float32)).dense()
    tensor([[ 0.0000,  0.2500],
            [-0.5000,  0.0000]])
    """

    shape: tuple[int, ...]
    code_N: NDArray[np.unsignedinteger[Any]]  # noqa: N815 -- uint8 or uint16; 0: pruned; k ≥ 1: codebook_K[k − 1]
    codebook_K: NDArray[np.float32]  # noqa: N815

    def __post_init__(self) -> None:
        """Refuse what is not such a tensor."""
        if any(not isinstance(side, int) or side < 0 for side in self.shape):
            raise CompressError(f"shape {self.shape} must be whole numbers of at least 0")
        centroids = len(self.codebook_K)
        if self.codebook_K.ndim != 1 or self.codebook_K.dtype != np.float32 or centroids > MOST_CENTROIDS:
            raise CompressError(
                f"a codebook is at most {MOST_CENTROIDS} float32 numbers in one dimension, "
                f"not {self.codebook_K.dtype} of shape {self.codebook_K.shape}"
            )
        wanted = code_type(centroids)
        if self.code_N.dtype != wanted or self.code_N.ndim != 1 or not self.code_N.flags.c_contiguous:
            raise CompressError(
                f"{centroids} centroids take codes of {wanted} in one contiguous dimension, "
                f"not {self.code_N.dtype} of shape {self.code_N.shape}"
            )
        if len(self.code_N) != prod(self.shape):
            raise CompressError(f"{len(self.code_N)} codes do not fill the shape {self.shape}")
        if not np.isfinite(self.codebook_K).all() or (np.diff(self.codebook_K) < 0).any():
            raise CompressError("centroids must be finite and ascending; sort them, and the codes with them")
        if len(self.code_N) and int(self.code_N.max()) > centroids:
            raise CompressError(f"code {int(self.code_N.max())} has no centroid among {centroids}")

    @property
    def numel(self) -> int:
        """Positions, pruned ones included."""
        return len(self.code_N)

    @property
    def nnz(self) -> int:
        """Positions that were kept."""
        return int(np.count_nonzero(self.code_N))

    @property
    def density(self) -> float:
        """The share of positions that were kept; 0 for a tensor without any."""
        return self.nnz / self.numel if self.numel else 0.0

    def dense(self) -> torch.Tensor:
        """The weights as a float32 tensor."""
        value_K = np.concatenate([np.zeros(1, np.float32), self.codebook_K])
        return torch.from_numpy(value_K[self.code_N].reshape(self.shape))

    def same(self, other: SharedWeights) -> bool:
        """Whether shape, codes and centroids are equal bit for bit."""
        return (
            self.shape == other.shape
            and np.array_equal(self.code_N, other.code_N)
            and self.codebook_K.tobytes() == other.codebook_K.tobytes()
        )


def code_type(centroids: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The type of codes for so many centroids.

    >>> code_type(255), code_type(256)
    (dtype('uint8'), dtype('uint16'))
    """
    return np.dtype(np.uint8) if centroids <= 255 else np.dtype(np.uint16)
