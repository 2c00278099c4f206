"""From a goal to settings: how dense, and how finely shared, a network must be for a ratio or for a loss.

ratio → density      N·(H(d) + v·d)/8 + rest = bytes/ratio       v ≈ 3 bits for a shared value, H(d) for its place
ratio → bit cost     the least λ whose coded size is within the ratio
loss → codebooks     `share.search` over several k and λ a layer, fewest bytes whose measured loss is borne
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log2

from torch import Tensor, nn

from tightwire.compress.errors import CompressError
from tightwire.compress.plan import Plan
from tightwire.compress.prune.masks import prunable
from tightwire.compress.share.search import Candidate, search
from tightwire.compress.share.tensors import share
from tightwire.compress.shared_weights import SharedWeights
from tightwire.compress.size import Sizer, dense_nbytes

_VALUE_BITS = 3.2
_TENSOR_NBYTES = 32  # in the header, checksum and codebook of a tensor, or nearly so
_MOST_BIT_COST = 0.2
_HALVINGS = 12
_CHOICES = tuple((k, cost) for k in (4, 8, 16, 32, 64) for cost in (0.0, 0.02, 0.08))


def density_for(ratio: float, model: nn.Module, *, number_nbytes: int = 2) -> float:
    """The density at which a file of about 1/ratio of the dense bytes is to be expected.

    ``number_nbytes`` is what a number takes that is not shared (a bias, a norm): 2 for halves.
    """
    weights = prunable(model)
    count = sum(weight.numel() for weight in weights.values())
    others = [t.numel() for name, t in model.state_dict().items() if t.is_floating_point() and name not in weights]
    rest = number_nbytes * sum(others) + _TENSOR_NBYTES * (len(others) + len(weights))
    room = 8 * (dense_nbytes(model) / ratio - rest)
    low, high = 0.0, 1.0
    if room <= 0:
        raise CompressError(
            f"a ratio of {ratio} leaves {dense_nbytes(model) / ratio:.0f} bytes, and what cannot be shared takes "
            f"{rest}; ask for a smaller ratio"
        )
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if count * (_place_bits(middle) + _VALUE_BITS * middle) > room else (middle, high)
    return max(low, 1e-4)


def _place_bits(density: float) -> float:
    return 0.0 if density in (0.0, 1.0) else -density * log2(density) - (1 - density) * log2(1 - density)


def share_all(weights: Mapping[str, Tensor], plan: Plan, bit_cost: float | None = None) -> dict[str, SharedWeights]:
    """Every layer clustered as the plan says."""
    cost = plan.bit_cost if bit_cost is None else bit_cost
    return {name: share(weight, plan.k(name), bit_cost=cost) for name, weight in weights.items()}


def share_to_ratio(
    model: nn.Module, weights: Mapping[str, Tensor], plan: Plan, sizer: Sizer
) -> dict[str, SharedWeights]:
    """Clustered with the least bit cost whose file is within the plan's ratio."""
    assert plan.ratio is not None
    return share_to_room(model, weights, plan, sizer, room=dense_nbytes(model) / plan.ratio)


def share_to_room(
    model: nn.Module, weights: Mapping[str, Tensor], plan: Plan, sizer: Sizer, *, room: float
) -> dict[str, SharedWeights]:
    """Clustered with the least bit cost whose file takes at most ``room`` bytes."""
    low, high, best = 0.0, _MOST_BIT_COST, share_all(weights, plan, _MOST_BIT_COST)
    least = sizer.whole(model, best)
    if least > room:
        raise CompressError(
            f"the file takes at least {least} bytes at this density where {room:.0f} were wanted; "
            "prune more (a smaller --prune density), or ask for a smaller ratio"
        )
    for step in range(_HALVINGS):
        cost = 0.0 if step == 0 else (low + high) / 2
        tried = share_all(weights, plan, cost)
        if sizer.whole(model, tried) <= room:
            high, best = cost, tried
        else:
            low = cost
        if high == 0:
            break
    return best


def share_within(
    model: nn.Module,
    weights: Mapping[str, Tensor],
    *,
    sizer: Sizer,
    loss: Callable[[nn.Module], float],
    budget: float,
) -> dict[str, SharedWeights]:
    """Clustered with the fewest bytes whose loss, before any retraining, is at most the budget."""
    candidates = {name: _candidates(weight, sizer) for name, weight in weights.items()}
    chosen = search(model, candidates, loss=loss, budget=budget)
    return {name: candidate.shared for name, candidate in chosen.layers.items()}


def _candidates(weight: Tensor, sizer: Sizer) -> list[Candidate]:
    """Several codebooks of a layer, none of them larger and coarser than another."""
    found = []
    for k, cost in _CHOICES:
        shared = share(weight, k, bit_cost=cost)
        found.append(Candidate(f"{k} centroids, bit cost {cost}", shared, sizer.layer(shared)))
    return found
