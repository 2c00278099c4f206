"""Harm that is foreseen: what is measured where the network is linear, and a rule that keeps to any budget."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.compress.search.toys import NETWORKS, examples, network, toy
from tightwire.compress.retrain import Examples
from tightwire.compress.search.budget import parse_budget
from tightwire.compress.search.build import Built, Wish, aimed_at, build
from tightwire.compress.search.channels import Channels
from tightwire.compress.search.curvature import foresee
from tightwire.compress.search.groups import find_groups
from tightwire.compress.search.layers import read_layers
from tightwire.compress.search.rules import by_harm, least_harm
from tightwire.compress.search.seen import look
from tightwire.compress.search.slopes import slopes


def built(model: nn.Module, held: Examples, budget: str = "flops=0.5") -> Built:
    return build(model, held, held, Wish(parse_budget(budget)))


def channels(made: Built) -> Channels:
    assert isinstance(made.scorer, Channels)
    return made.scorer


def linear(first: nn.Module, *rest: nn.Module) -> tuple[nn.Module, Examples]:
    """A network without a nonlinearity, and inputs that are alike in no two channels."""
    torch.manual_seed(0)
    model = nn.Sequential(first, *rest).eval()
    scale = torch.linspace(0.2, 2.0, 768).view(3, 16, 16)
    return model, Examples(scale * torch.randn(600, 3, 16, 16), torch.randint(5, (600,)))


@pytest.mark.parametrize("bias", [True, False])
def test_in_a_linear_network_it_is_how_far_the_logits_move(bias: bool) -> None:
    model, held = linear(nn.Flatten(), nn.Linear(768, 24, bias=bias), nn.Linear(24, 10, bias=bias))
    scorer = channels(built(model, held))
    (harm,) = foresee(scorer)
    for level in (0, len(harm) // 2):
        with torch.no_grad():
            pruned = torch.func.functional_call(model, scorer.version([level]), (held.x_N,))
            moved = pruned - model(held.x_N)
        moved -= moved.mean(1, keepdim=True)
        assert float(harm[level]) == pytest.approx(float(moved.square().sum(1).mean()), rel=0.15)
    assert harm[-1] == 0


def test_positions_of_a_convolution_add_up() -> None:
    """A 1×1 convolution on four positions with inputs of their own, as four linear layers are."""
    model, held = linear(
        nn.Conv2d(3, 12, 8, 8, bias=False), nn.Conv2d(12, 6, 1, bias=False), nn.Flatten(), nn.Linear(24, 10)
    )
    scorer = channels(built(model, held))
    harm = foresee(scorer)[0]
    whole = [len(unit.choices) - 1 for unit in scorer.units]
    with torch.no_grad():
        pruned = torch.func.functional_call(model, scorer.version([0, *whole[1:]]), (held.x_N,))
        moved = pruned - model(held.x_N)
    moved -= moved.mean(1, keepdim=True)
    assert float(harm[0]) == pytest.approx(float(moved.square().sum(1).mean()), rel=0.2)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_has_it_and_more_kept_is_never_more_harm(name: str) -> None:
    model, held = network(name), examples()
    made = built(model, held)
    harms = foresee(channels(made))
    assert [len(harm) for harm in harms] == [len(unit.choices) for unit in made.problem.units]
    for harm in harms:
        assert harm[0] > 0 and harm[-1] == 0 and bool(np.isfinite(harm).all()) and bool((np.diff(harm) <= 0).all())


def test_groups_of_a_grouped_convolution_are_told_apart() -> None:
    """Inputs of its second group are large: what goes there harms more, though no statistics say so."""
    torch.manual_seed(0)
    harms = []
    for scale in (1.0, 10.0):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(3, 4, 3, bias=False), nn.Conv2d(4, 8, 3, groups=2, bias=False), nn.Flatten(), nn.Linear(1152, 5)
        ).eval()
        with torch.no_grad():
            model[0].weight[2:].mul_(scale)
        harms.append(foresee(channels(built(model, examples(), "flops=0.9")))[0][0])
    assert harms[1] > 20 * harms[0]


@settings(max_examples=30)
@given(st.sampled_from(sorted(NETWORKS)), st.sampled_from(["flops", "params", "bytes"]), st.floats(0, 1))
def test_the_rule_is_within_any_budget_and_follows_it(name: str, kind: str, share: float) -> None:
    made = within_all(name, kind)
    least, most = made.problem.cost.least, made.problem.cost.most
    problem = aimed_at(made, least + share * (most - least)).problem
    costs = problem.cost.total(np.array(problem.ruled))
    assert len(costs) in (1, 2) and bool((costs <= problem.clip.target).all())


@cache
def within_all(name: str, kind: str) -> Built:
    return built(network(name), examples(), f"{kind}=1")


def test_where_all_of_it_fits_nothing_is_lost() -> None:
    made = within_all("residual", "flops")
    (whole,) = made.problem.ruled
    assert (
        made.scorer.errors(np.array([whole, made.problem.cost.dearest]))[0]
        == channels(made).errors(np.array([made.problem.cost.dearest]))[0]
    )


def test_squared_harms_are_spread() -> None:
    problem, _ = toy(3)
    harms = problem.scorer.harms  # type: ignore[attr-defined]
    plain, squared = by_harm(problem, harms)
    most = [max(harm[level] for harm, level in zip(harms, levels, strict=True)) for levels in (plain, squared)]
    total = [sum(harm[level] for harm, level in zip(harms, levels, strict=True)) for levels in (plain, squared)]
    assert most[1] < most[0] and total[0] < total[1]
    assert least_harm(problem, harms).tolist() == list(plain)
    assert len(by_harm(replace(problem, clip=replace(problem.clip, target=problem.cost.most)), harms)) == 1


def test_a_layer_that_moves_no_logit_does_no_harm() -> None:
    class Beside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.unheard = nn.Linear(768, 12), nn.Linear(12, 5), nn.Linear(12, 7)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = torch.relu(self.a(x.flatten(1)))
            self.unheard(hidden)
            out: torch.Tensor = self.b(hidden)
            return out

    made = built(Beside().eval(), examples())
    scorer = channels(made)
    assert "b" in scorer.seen.slope and "unheard" not in scorer.seen.slope
    assert foresee(scorer)[0][0] > 0


def test_looking_changes_nothing() -> None:
    model = network("residual").train()
    made = built(network("residual"), examples())
    found = slopes(model, list(read_layers(model, made.example).values()), examples().x_N.split(32))
    assert set(found) == set(made.layers) and model.training
    assert all(parameter.grad is None for parameter in model.parameters())


class Words(nn.Module):
    """Inputs are numbers of words, which have no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.a, self.b = nn.Embedding(20, 8), nn.Linear(8, 12), nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.b(torch.relu(self.a(self.words(x).mean(1))))
        return out


def test_inputs_may_be_words() -> None:
    torch.manual_seed(0)
    model = Words().eval()
    made = built(model, Examples(torch.randint(20, (64, 7)), torch.randint(5, (64,))))
    assert foresee(channels(made))[0][0] > 0 and made.problem.ruled
    assert all(parameter.grad is None for parameter in model.parameters())


def test_large_images_are_looked_at_a_few_at_a_time() -> None:
    seen: list[int] = []
    model = nn.Sequential(nn.Conv2d(3, 4, 3, 8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))
    model.register_forward_hook(lambda module, args, out: seen.append(len(args[0])))
    x_N = torch.randn(10, 3, 256, 256)
    layers = read_layers(model.eval(), x_N[:1])
    look(model, layers, find_groups(model, layers, x_N[:1]), Examples(x_N, torch.zeros(10).long()))
    assert sum(seen) >= 20 and max(seen) == (1 << 20) // (3 * 256 * 256)
