"""Which layer gets which codebook: the fewest coded bytes for a loss that is borne, over the whole network.

    min Σ_l bytes_l  with  loss(network) ≤ budget:        each layer minimises  bytes_l + μ·harm_l

Shoham, Gersho: Efficient Bit Allocation for an Arbitrary Set of Quantizers. IEEE Trans. ASSP 1988. Harm is what the
loss grows by if that layer alone takes the candidate. Harms are nearly additive, bytes exactly; so a walk over μ
finds the lower hull of all mixtures, and the loss that decides is measured on the mixture, not summed up from harms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from tightwire.compress.errors import CompressError
from tightwire.compress.shared_weights import SharedWeights

_HALVINGS = 24


@dataclass(frozen=True)
class Candidate:
    """One way to share one layer, and its coded bytes."""

    label: str
    shared: SharedWeights
    nbytes: int


@dataclass(frozen=True)
class Chosen:
    """A candidate for every layer; ``loss`` is that of the network that has them all."""

    layers: dict[str, Candidate]
    loss: float

    @property
    def nbytes(self) -> int:
        """Coded bytes of all layers."""
        return sum(candidate.nbytes for candidate in self.layers.values())


def search(
    model: nn.Module,
    candidates: Mapping[str, Sequence[Candidate]],
    *,
    loss: Callable[[nn.Module], float],
    budget: float,
) -> Chosen:
    """The smallest mixture whose measured loss is at most ``budget``; where there is none, the least harmful one.

    The model's weights are as before afterwards.
    """
    empty = [name for name, some in candidates.items() if not some]
    if empty or not candidates:
        raise CompressError(f"no candidates for {', '.join(empty) or 'any layer'}; give each layer at least one")
    weights = dict(model.named_parameters())
    kept = {name: weights[name].detach().clone() for name in candidates}
    try:
        harms = _harms(model, candidates, kept, loss)
        return _walk(candidates, harms, lambda mixture: _measure(model, mixture, loss), budget)
    finally:
        _write(model, kept)


def _harms(
    model: nn.Module,
    candidates: Mapping[str, Sequence[Candidate]],
    kept: Mapping[str, torch.Tensor],
    loss: Callable[[nn.Module], float],
) -> dict[str, list[float]]:
    """How much each candidate alone adds to the loss; noise below nothing counts as nothing."""
    before = loss(model)
    harms: dict[str, list[float]] = {}
    for name, some in candidates.items():
        harms[name] = [max(_measure(model, {name: candidate}, loss) - before, 0.0) for candidate in some]
        _write(model, {name: kept[name]})
    return harms


def _walk(
    candidates: Mapping[str, Sequence[Candidate]],
    harms: Mapping[str, Sequence[float]],
    measure: Callable[[Mapping[str, Candidate]], float],
    budget: float,
) -> Chosen:
    """Bisect the price of harm: cheap harm gives small files, dear harm small losses."""
    seen: dict[tuple[int, ...], float] = {}

    def at(price: float) -> tuple[dict[str, Candidate], float]:
        picks = {
            name: min(range(len(some)), key=lambda c: (some[c].nbytes + price * harms[name][c], harms[name][c]))
            for name, some in candidates.items()
        }
        mixture = {name: candidates[name][pick] for name, pick in picks.items()}
        key = tuple(picks.values())
        if key not in seen:
            seen[key] = measure(mixture)
        return mixture, seen[key]

    most = sum(max(c.nbytes for c in some) for some in candidates.values())
    least_harm = min((h for some in harms.values() for h in some if h > 0), default=1.0)
    low, high = 0.0, 2.0 * most / least_harm
    best, found = at(high)
    for _ in range(_HALVINGS):
        price = (low * high) ** 0.5 if low > 0 else high * 2.0**-20
        mixture, value = at(price)
        if value <= budget:
            high, best, found = price, mixture, value
        else:
            low = price
    return Chosen(best, found)


def _measure(model: nn.Module, mixture: Mapping[str, Candidate], loss: Callable[[nn.Module], float]) -> float:
    _write(model, {name: candidate.shared.dense() for name, candidate in mixture.items()})
    return float(loss(model))


@torch.no_grad()
def _write(model: nn.Module, values: Mapping[str, torch.Tensor]) -> None:
    weights = dict(model.named_parameters())
    for name, value in values.items():
        weights[name].copy_(value)
