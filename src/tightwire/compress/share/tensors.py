"""From weights to `SharedWeights`: zeros stay zeros and take no part in the clustering.

Han, Mao, Dally: Deep Compression. ICLR 2016, section 3: k centroids a layer, weights are never shared between layers.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tightwire.compress.errors import CompressError
from tightwire.compress.share.entropy import entropy_constrained
from tightwire.compress.share.kmeans import kmeans, nearest
from tightwire.compress.share.optimal import optimal
from tightwire.compress.shared_weights import MOST_CENTROIDS, SharedWeights, code_type

Method: TypeAlias = Literal["linear", "density", "random", "optimal"]


def share(
    weight: Tensor,
    k: int,
    *,
    method: Method = "linear",
    importance: Tensor | None = None,
    bit_cost: float = 0.0,
    seed: int = 0,
) -> SharedWeights:
    """Cluster the non-zero weights to at most ``k`` centroids.

    ``method`` is where Lloyd's rounds begin, or ``optimal`` for the exact solution. With ``bit_cost`` above 0 the
    clustering counts bits beside squares (`entropy_constrained`), in units of the mean square of the weights kept.

    >>> import torch
    >>> share(torch.tensor([[0.0, 1.0], [1.2, -3.0]]), 2).codebook_K.tolist()
    [-3.0, 1.100000023841858]
    """
    if not 1 <= k <= MOST_CENTROIDS:
        raise CompressError(f"{k} centroids: give at least 1 and at most {MOST_CENTROIDS}")
    value_N = flat(weight)
    kept_N = value_N != 0
    value_S = value_N[kept_N]
    if not len(value_S):
        return _shared(weight, np.zeros(len(value_N), np.int64), np.empty(0, np.float32))
    code_N = np.zeros(len(value_N), np.int64)
    if bit_cost > 0:
        unit = bit_cost * float(np.mean(value_S.astype(np.float64) ** 2))
        zeros = len(value_N) - len(value_S)
        code_N[kept_N], center_K = entropy_constrained(value_S, k, bit_cost=unit, zeros=zeros)
        return _shared(weight, code_N, center_K)
    matters_S = None if importance is None else flat(importance)[kept_N]
    if method == "optimal":
        center_K = optimal(value_S, k, importance_N=matters_S)
    else:
        center_K = kmeans(value_S, k, start=method, importance_N=matters_S, seed=seed)
    return share_to(weight, center_K)


def share_to(weight: Tensor, center_K: NDArray[np.float32]) -> SharedWeights:
    """Every non-zero weight at the nearest of ascending centroids; centroids that no weight has are left out."""
    value_N = flat(weight)
    kept_N = value_N != 0
    near_S = nearest(value_N[kept_N], center_K) if kept_N.any() else np.empty(0, np.int64)
    used_K, code_S = np.unique(near_S, return_inverse=True)
    code_N = np.zeros(len(value_N), np.int64)
    code_N[kept_N] = code_S + 1
    return _shared(weight, code_N, np.asarray(center_K, np.float32)[used_K])


def flat(weight: Tensor) -> NDArray[np.float32]:
    """The weights as one row of float32, row-major; refuses what is not finite."""
    value_N: NDArray[np.float32] = weight.detach().float().cpu().contiguous().numpy().ravel()
    if not np.isfinite(value_N).all():
        raise CompressError("weights with NaN or infinity cannot be shared; train again with a lower rate")
    return value_N


def _shared(weight: Tensor, code_N: NDArray[np.int64], center_K: NDArray[np.float32]) -> SharedWeights:
    code: NDArray[np.uint8] | NDArray[np.uint16] = code_N.astype(code_type(len(center_K)))
    return SharedWeights(tuple(weight.shape), code, center_K)
