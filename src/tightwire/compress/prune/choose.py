"""How many weights go: thresholds on the scores of their groups.

    by_quality      keep score > q · std(w), the deviation of the layer's own survivors
    by_density      keep the share d of every layer
    globally        keep the share d of all layers together, by one threshold
    layer_adaptive  the same, with |w| made comparable between layers: w² / Σ_{|u| ≥ |w|} u²

Han, Pool, Tran, Dally: Learning both Weights and Connections for Efficient Neural Networks. NIPS 2015.
Lee, Park, Mo, Ahn, Shin: Layer-Adaptive Sparsity for the Magnitude-Based Pruning. ICLR 2021, arXiv 2010.07611.
A weight that is zero already counts as pruned, so pruning again never brings one back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from torch import Tensor

from tightwire.compress.errors import CompressError
from tightwire.compress.prune.patterns import Pattern, fine

Share: TypeAlias = float | Mapping[str, float]
Adapt: TypeAlias = Callable[[Tensor], Tensor]


def by_quality(weights: Mapping[str, Tensor], quality: Share, *, pattern: Pattern | None = None) -> dict[str, Tensor]:
    """Masks that keep what exceeds ``quality`` deviations of its layer.

    >>> by_quality({"w": torch.tensor([[3.0, -0.1, 0.2, -3.0]])}, 0.5)["w"]
    tensor([[ True, False, False,  True]])
    """
    pattern = pattern or fine()
    masks = {}
    for name, weight in weights.items():
        survivors = weight.detach()[weight.detach() != 0].float()
        threshold = _of(quality, name) * float(survivors.std(correction=0)) if survivors.numel() else 0.0
        masks[name] = pattern.expand(pattern.scores(weight) > max(threshold, 0.0), weight)
    return masks


def by_density(weights: Mapping[str, Tensor], density: Share, *, pattern: Pattern | None = None) -> dict[str, Tensor]:
    """Masks that keep the share ``density`` of every layer, or of each its own.

    >>> by_density({"w": torch.tensor([[3.0, -0.1, 0.2, -3.0]])}, 0.75)["w"]
    tensor([[ True, False,  True,  True]])
    """
    return {name: _largest({name: w}, _of(density, name), pattern)[name] for name, w in weights.items()}


def globally(weights: Mapping[str, Tensor], density: float, *, pattern: Pattern | None = None) -> dict[str, Tensor]:
    """Masks that keep the share ``density`` of all weights, the largest wherever they are."""
    return _largest(weights, density, pattern)


def layer_adaptive(
    weights: Mapping[str, Tensor], density: float, *, pattern: Pattern | None = None
) -> dict[str, Tensor]:
    """Masks that keep the share ``density`` of all weights by scores relative to what is larger in the layer."""
    return _largest(weights, density, pattern, adapt=relative)


def _largest(
    weights: Mapping[str, Tensor], density: float, pattern: Pattern | None, adapt: Adapt | None = None
) -> dict[str, Tensor]:
    """Groups from the highest score down, while the weights in them fit into the density."""
    pattern = pattern or fine()
    if not 0 <= density <= 1:
        raise CompressError(f"density {density} must be between 0 (nothing is kept) and 1 (everything is)")
    if not weights:
        return {}
    scores = {name: pattern.scores(weight) for name, weight in weights.items()}
    sizes = torch.cat([pattern.sizes(weight).flatten() for weight in weights.values()]).double()
    flat_G = torch.cat([(adapt(score) if adapt else score).flatten() for score in scores.values()])
    order_G = flat_G.argsort(descending=True, stable=True)  # stable: ties end the same way on every machine
    fits_G = sizes[order_G].cumsum(0) <= round(density * float(sizes.sum()))
    kept_G = torch.zeros_like(flat_G, dtype=torch.bool)
    kept_G[order_G] = fits_G & (flat_G[order_G] > 0)
    parts = kept_G.split([score.numel() for score in scores.values()])
    return {
        name: pattern.expand(part.reshape(scores[name].shape), weights[name])
        for name, part in zip(scores, parts, strict=True)
    }


def relative(score: Tensor) -> Tensor:
    """LAMP: the square over the sum of all squares that are not smaller; forbidden and zero groups stay last."""
    flat_G = score.flatten().double().clamp(min=0).square()
    order_G = flat_G.argsort(descending=True, stable=True)
    relative_G = torch.empty_like(flat_G)
    relative_G[order_G] = flat_G[order_G] / flat_G[order_G].cumsum(0).clamp(min=torch.finfo(torch.float64).tiny)
    return relative_G.reshape(score.shape)


def _of(value: Share, name: str) -> float:
    if not isinstance(value, Mapping):
        return value
    if name not in value:
        raise CompressError(f"no value is given for {name}; there are values for {', '.join(value)}")
    return value[name]
