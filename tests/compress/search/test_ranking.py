"""Ranking of channels: the one of least harm goes first, which others can stand in for; every channel once."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn

from tests.compress.search.toys import NETWORKS, examples, network
from tightwire.compress.retrain import Examples
from tightwire.compress.search.budget import parse_budget
from tightwire.compress.search.build import Wish, build
from tightwire.compress.search.channels import Channels
from tightwire.compress.search.curvature import foresee
from tightwire.compress.search.ranking import rank
from tightwire.compress.search.reconstruct import refit
from tightwire.compress.search.seen import Seen


def channels(model: nn.Module, held: Examples, *, least: float = 0.2) -> Channels:
    scorer = build(model, held, held, Wish(parse_budget("flops=1"), least=least)).scorer
    assert isinstance(scorer, Channels)
    return scorer


def harm(scorer: Channels, name: str, kept: tuple[int, ...]) -> float:
    """By refitting: how far the logits move when a layer reads these columns alone."""
    known, layer = scorer.seen.known[name], scorer.layers[name]
    moved = known.weight_OD - known.matrix(refit(layer, np.array(kept), scorer.seen.known), name)
    return float((scorer.seen.slope[name].gram_OO * (moved @ known.mean_DD @ moved.T)).sum())


@pytest.mark.parametrize("seed", range(5))
def test_at_every_step_the_channel_goes_whose_loss_harms_least(seed: int) -> None:
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 4, 3, 2), nn.Flatten(), nn.Linear(36, 5)
    ).eval()
    scorer = channels(model, examples(256))
    order = rank(scorer.groups[0], scorer.layers, scorer.seen).tolist()
    for count in range(8, 1, -1):
        left = sorted(order[:count])
        after = {kept: harm(scorer, "2", kept) for kept in combinations(left, count - 1)}
        taken = after[tuple(sorted(order[: count - 1]))]
        assert taken <= 1.02 * min(after.values()), "but for what is rounded"


def test_of_two_channels_that_say_the_same_one_stays() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 12), nn.ReLU(), nn.Linear(12, 5)).eval()
    first, last = model[1], model[3]
    assert isinstance(first, nn.Linear) and isinstance(last, nn.Linear)
    with torch.no_grad():
        first.weight[6:] = first.weight[:6]
        first.bias[6:] = first.bias[:6]
        last.weight[:, [0, 6]] *= 10  # the twins that matter most
    scorer = channels(model, examples(512))
    best = rank(scorer.groups[0], scorer.layers, scorer.seen)[:6]
    assert sorted(int(channel) % 6 for channel in best) == list(range(6))
    by_size = rank(scorer.groups[0], scorer.layers, Seen())
    assert {int(channel) for channel in by_size[:2]} == {0, 6}, "where nothing was seen, both of the largest"
    level = next(n for n, choice in enumerate(scorer.units[0].choices) if choice.kept == 6)
    with torch.no_grad():
        x_N = examples(32).x_N
        half = torch.func.functional_call(model, scorer.version([level]), (x_N,))
        assert float((half - model(x_N)).abs().max()) < 0.02 * float(model(x_N).abs().max())


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("looked", [True, False])
def test_every_channel_has_one_place(name: str, looked: bool) -> None:
    scorer = channels(network(name), examples())
    for group in scorer.groups:
        order = rank(group, scorer.layers, scorer.seen if looked else Seen())
        assert sorted(order.tolist()) == list(range(group.width // group.parts))


def test_a_layer_without_statistics_of_its_inputs_ranks_by_what_each_channel_gives_it() -> None:
    """A grouped convolution: its third and fourth inputs are large."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, bias=False), nn.Conv2d(4, 8, 3, groups=2, bias=False), nn.Flatten(), nn.Linear(1152, 5)
    ).eval()
    with torch.no_grad():
        model[0].weight[[1, 3]] *= 10  # type: ignore[index, operator]
    scorer = channels(model, examples())
    assert "1" not in scorer.seen.known and "1" in scorer.seen.slope
    assert scorer.groups[0].parts == 2 and rank(scorer.groups[0], scorer.layers, scorer.seen).tolist() == [1, 0]


def test_what_is_ranked_so_harms_less_than_what_is_ranked_by_size() -> None:
    model, held = network("lenet"), examples(512)
    scorer = channels(model, held)
    plain = Channels(model, scorer.layers, scorer.groups, scorer.units, scorer.seen, scorer.measure)
    plain._order = [rank(group, scorer.layers, Seen()) for group in scorer.groups]
    for mine, other in zip(foresee(scorer), foresee(plain), strict=True):
        assert (mine <= other + 1e-6 * other.max()).mean() > 0.8 and mine.sum() < 0.95 * other.sum()
