"""Single weights: what was pruned before is neither offered nor paid for again, and a share is one of the whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.compress.search.toys import examples, network
from tightwire.compress.prune import by_density, prunable
from tightwire.compress.search.budget import parse_budget
from tightwire.compress.search.build import Built, Wish, build


def pruned(density: float, budget: str = "params=0.3") -> Built:
    model, some = network("lenet"), examples()
    with torch.no_grad():
        for name, mask in by_density(dict(prunable(model)), density).items():
            prunable(model)[name].mul_(mask)
    return build(model, some, some, Wish(parse_budget(budget), "weights"))


def test_the_most_that_a_layer_keeps_is_what_is_left_of_it_and_costs_that() -> None:
    built = pruned(0.25)
    weights, dearest = prunable(built.scorer.model), built.problem.cost.dearest
    kept = built.scorer.version([int(level) for level in dearest])
    assert all(torch.equal(kept[name], weight) for name, weight in weights.items())
    left = sum(int(weight.count_nonzero()) for weight in weights.values())
    beside = sum(p.numel() for p in built.scorer.model.parameters()) - sum(w.numel() for w in weights.values())
    assert built.problem.cost.total(dearest[None])[0] == left + beside


def test_no_two_levels_are_the_same_weights_at_two_prices() -> None:
    built = pruned(0.25)
    for t, unit in enumerate(built.problem.units):
        found = [int(built.scorer.tensor(t, level).count_nonzero()) for level in range(len(unit.choices))]  # type: ignore[union-attr]
        assert found == [choice.kept for choice in unit.choices] and found == sorted(found)


@pytest.mark.parametrize("budget", ["params=0.2", "flops=0.2", "bytes=0.05"])
def test_a_share_is_one_of_the_whole_network_however_much_is_left(budget: str) -> None:
    whole, rest = (pruned(density, budget) for density in (1.0, 0.25))
    assert whole.problem.clip.target == rest.problem.clip.target and whole.whole == rest.whole
    walked = rest.problem.clip.walk(np.full((1, len(rest.problem.units)), 63 if "bytes" not in budget else 23))
    assert rest.problem.cost.total(walked)[0] <= rest.problem.clip.target
