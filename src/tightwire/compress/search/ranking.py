"""Which channels of a group to keep: of all that are left the one whose loss harms least goes, again and again.

    harm_c = Σ over readers  tr(Γ · W_c · [(A⁻¹)_cc]⁻¹ · W_cᵀ)      what refitting all others cannot make good
    W ← W − W_c · [(A⁻¹)_cc]⁻¹ · (A⁻¹)_c,:                          the others refitted
    A⁻¹ ← A⁻¹ − (A⁻¹)_:,c · [(A⁻¹)_cc]⁻¹ · (A⁻¹)_c,:                A of what is left, inverted

c are the columns of one channel. The optimal brain surgeon (Hassibi, Stork: Second Order Derivatives for Network
Pruning. NIPS 1992) for whole channels, with the curvature of `slopes`; of two channels that say the same it takes one,
where a score for each alone takes both or none. Without samples: Σ |column| over readers, as AMC ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tightwire.compress.search.groups import Group
from tightwire.compress.search.layers import Layer
from tightwire.compress.search.reconstruct import Statistics
from tightwire.compress.search.seen import Seen
from tightwire.compress.search.slopes import Slope, uncorrelated

_RIDGE = 1e-4  # of the mean square of a column
_LEAST = 1e-9  # directions of the outputs that the logits feel less than this part of the strongest are left out


@torch.no_grad()
def rank(group: Group, layers: Mapping[str, Layer], seen: Seen) -> NDArray[np.intp]:
    """The channels of one part of a group, the most important first."""
    side = group.width // group.parts
    readers: list[_Correlated | _Uncorrelated] = []
    for name, columns in group.readers.items():
        if name not in seen.slope:
            continue  # the logits do not depend on it
        column_CK = columns.reshape(group.parts, side, -1).transpose(1, 0, 2).reshape(side, -1)
        if name in seen.known:
            readers.append(_Correlated(layers[name], seen.known[name], seen.slope[name], column_CK))
        else:
            readers.append(_Uncorrelated(layers[name], seen.slope[name], column_CK))
    return _eliminated(readers, side) if readers else _by_size(group, layers)


def _eliminated(readers: Sequence[_Correlated | _Uncorrelated], side: int) -> NDArray[np.intp]:
    left, gone = list(range(side)), []
    while len(left) > 1:
        harm_L = readers[0].harm()
        for reader in readers[1:]:
            harm_L = harm_L + reader.harm()
        place = int(harm_L.argmin())
        gone.append(left.pop(place))
        for reader in readers:
            reader.without(place)
    return np.array(left + gone[::-1], np.intp)


class _Correlated:
    """A reader with statistics of its inputs: A⁻¹, and Γ^½·W, of the columns that are left."""

    def __init__(self, layer: Layer, known: Statistics, slope: Slope, column_CK: NDArray[np.intp]) -> None:
        mean_DD = known.mean_DD.double()
        eye = torch.eye(len(mean_DD), dtype=mean_DD.dtype, device=mean_DD.device)
        self._inverse_DD = torch.linalg.inv(mean_DD + _RIDGE * mean_DD.diagonal().mean().clamp(min=1e-12) * eye)
        self._weight_OD = _root(slope.gram_OO.double()).T @ known.weight_OD.double()
        index_CK = (column_CK[..., None] * layer.area + np.arange(layer.area)).reshape(len(column_CK), -1)
        self._index_LK = torch.from_numpy(index_CK).to(mean_DD.device)

    def harm(self) -> Tensor:
        """Of each channel that is left."""
        own_LKK = self._inverse_DD[self._index_LK[:, :, None], self._index_LK[:, None, :]]
        weight_LKO = self._weight_OD[:, self._index_LK].permute(1, 2, 0)
        harm_L: Tensor = (torch.linalg.solve(own_LKK, weight_LKO) * weight_LKO).sum((1, 2))
        return harm_L

    def without(self, place: int) -> None:
        """One of them goes, and its columns."""
        gone_K, inverse_DD = self._index_LK[place], self._inverse_DD
        stays_D = torch.ones(len(inverse_DD), dtype=torch.bool, device=inverse_DD.device)
        stays_D[gone_K] = False
        fill_KD = torch.linalg.solve(inverse_DD[gone_K][:, gone_K], inverse_DD[gone_K][:, stays_D])
        self._weight_OD = self._weight_OD[:, stays_D] - self._weight_OD[:, gone_K] @ fill_KD
        self._inverse_DD = inverse_DD[stays_D][:, stays_D] - inverse_DD[stays_D][:, gone_K] @ fill_KD
        others_LK = torch.cat([self._index_LK[:place], self._index_LK[place + 1 :]])
        self._index_LK = (stays_D.cumsum(0) - 1)[others_LK]


class _Uncorrelated:
    """A reader without: what goes harms alone, and nothing makes it good."""

    def __init__(self, layer: Layer, slope: Slope, column_CK: NDArray[np.intp]) -> None:
        each_C = uncorrelated(layer, layer.module.weight, slope).double()
        self._harm_L = each_C[torch.from_numpy(column_CK % len(each_C)).to(each_C.device)].sum(1)

    def harm(self) -> Tensor:
        """Of each channel that is left."""
        return self._harm_L

    def without(self, place: int) -> None:
        """One of them goes."""
        self._harm_L = torch.cat([self._harm_L[:place], self._harm_L[place + 1 :]])


def _root(gram_OO: Tensor) -> Tensor:
    """R with R·Rᵀ = Γ, its columns as few as there are directions that count."""
    value_O, vector_OO = torch.linalg.eigh(gram_OO)
    counts_O = value_O > _LEAST * value_O[-1].clamp(min=1e-30)
    root_OR: Tensor = vector_OO[:, counts_O] * value_O[counts_O].sqrt()
    return root_OR


def _by_size(group: Group, layers: Mapping[str, Layer]) -> NDArray[np.intp]:
    score = np.zeros(group.width)
    for name, columns in group.readers.items():
        weight = layers[name].module.weight.detach()
        flat = weight.abs().reshape(*weight.shape[:2], -1).sum((0, 2)).cpu().double().numpy()
        score += flat[columns % len(flat)].sum(1) / max(float(flat.sum()), 1e-30)
    by_part = score.reshape(group.parts, -1).sum(0)
    order: NDArray[np.intp] = np.argsort(-by_part, kind="stable")
    return order
