"""Channels: zeroed columns answer as the network that is cut; least squares makes good what it can."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.compress.search.toys import NETWORKS, examples, network
from tightwire.compress.errors import CompressError
from tightwire.compress.plan import parse_pattern
from tightwire.compress.prune import by_density
from tightwire.compress.retrain import evaluate
from tightwire.compress.search.budget import parse_budget
from tightwire.compress.search.build import Wish, build
from tightwire.compress.search.channels import Channels, counts_of
from tightwire.compress.search.groups import find_groups
from tightwire.compress.search.layers import read_layers
from tightwire.compress.search.measure import Measure
from tightwire.compress.search.reconstruct import gather, refit
from tightwire.compress.search.seen import Seen
from tightwire.compress.search.weights import Weights
from tightwire.models import make


@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_measured_is_what_the_cut_network_answers(name: str) -> None:
    model, held = network(name), examples()
    made = build(model, held, held, Wish(parse_budget("flops=1"), multiple_of=2))
    scorer = made.scorer
    assert isinstance(scorer, Channels)
    random = np.random.default_rng(0)
    for _ in range(3):
        levels = [int(random.integers(len(unit.choices))) for unit in made.problem.units]
        cut = scorer.cut(levels, made.example)
        with torch.no_grad():
            version = scorer.measure.calibrated(scorer.version(levels))
            zeroed = torch.func.functional_call(model, dict(version), (held.x_N,))
            assert torch.allclose(cut(held.x_N), zeroed, atol=2e-4)
        assert scorer.errors(np.array([levels])) == [pytest.approx(1 - evaluate(cut, held).accuracy)]


def test_padded_shortcuts_keep_their_channels() -> None:
    model = make("resnet20", inputs=(3, 16, 16), classes=5).eval()
    x = torch.randn(1, 3, 16, 16)
    groups = find_groups(model, read_layers(model, x), x)
    assert [group.name for group in groups] == [f"{block}.residual.0" for block in range(3, 12)]


def test_groups_of_mobilenet_hold_depthwise_layers_and_shortcuts() -> None:
    model = make("mobilenet-v2", inputs=(3, 32, 32), classes=5).eval()
    x = torch.randn(1, 3, 32, 32)
    groups = find_groups(model, layers := read_layers(model, x), x)
    expanded = next(group for group in groups if group.name == "features.2.conv.0.0")
    assert "features.2.conv.1.0" in expanded.writers and layers["features.2.conv.1.0"].depthwise
    assert list(expanded.readers) == ["features.2.conv.2"] and expanded.norms == 4
    added = next(group for group in groups if group.name == "features.2.conv.2")
    assert "features.3.conv.2" in added.writers and set(added.readers) == {"features.3.conv.0.0", "features.4.conv.0.0"}


def test_least_squares_finds_what_a_copied_channel_said() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.Conv2d(6, 4, 3, bias=True)).eval()
    with torch.no_grad():
        model[0].weight[4:] = 2 * model[0].weight[2:4]  # type: ignore[union-attr, index, operator]
        model[0].bias[4:] = 2 * model[0].bias[2:4] + 1  # type: ignore[union-attr, index, operator]
    x = torch.randn(64, 3, 12, 12)
    layer = read_layers(model, x[:1])["1"]
    known = gather(model, [layer], x.split(16))
    kept = np.array([0, 1, 2, 3])
    fitted = refit(layer, kept, known)
    only_zeroed = refit(layer, kept, {})
    with torch.no_grad():
        right = model(x)
        errors = [
            float((torch.func.functional_call(model, version, (x,)) - right).square().mean() / right.square().mean())
            for version in (fitted, only_zeroed)
        ]
    assert errors[0] < 1e-4 and errors[1] > 0.05
    assert float(fitted["1.weight"][:, 4:].abs().max()) == 0


@pytest.mark.parametrize("name", ["lenet", "residual"])
def test_least_squares_is_closer_to_what_the_network_said(name: str) -> None:
    model, seen, held = network(name), examples(512), examples(64)
    made = build(model, seen, held, Wish(parse_budget("flops=1")))
    scorer = made.scorer
    assert isinstance(scorer, Channels)
    plain = Channels(model, scorer.layers, scorer.groups, scorer.units, Seen(), scorer.measure)
    whole = made.problem.cost.dearest
    with torch.no_grad():
        right = model(held.x_N)
        for t in range(len(whole)):
            levels = [int(level) for level in whole]
            levels[t] = len(made.problem.units[t].choices) // 2
            fitted, zeroed = (
                float((torch.func.functional_call(model, one.version(levels), (held.x_N,)) - right).square().mean())
                for one in (scorer, plain)
            )
            assert fitted < 0.9 * zeroed


def test_counts_are_multiples() -> None:
    assert counts_of(64, parts=1, multiple_of=8, least=0.2) == [16, 24, 32, 40, 48, 56, 64]
    assert counts_of(32, parts=4, multiple_of=6, least=0.2) == [12, 24, 32]
    assert len(counts_of(2048, parts=1, multiple_of=1, least=0.1)) == 32


def test_several_versions_at_once_are_measured_as_one_by_one() -> None:
    model, held = network("residual"), examples()
    made = build(model, held, held, Wish(parse_budget("flops=1")))
    some = np.stack([[0] * 4, [1] * 4, [3] * 4, [2, 3, 1, 0], [1, 2, 3, 4]])
    scorer = made.scorer
    assert isinstance(scorer, Channels) and len(made.problem.units) == 4
    versions = [scorer.version([int(level) for level in row]) for row in some]
    seen_N = examples(96).x_N
    assert Measure(model, held, 2).errors(versions) == Measure(model, held).errors(versions)
    assert Measure(model, held, 2, seen_N).errors(versions) == Measure(model, held, 1, seen_N).errors(versions)


def test_single_weights_are_pruned_as_by_density() -> None:
    model, held = network("lenet"), examples()
    made = build(model, held, held, Wish(parse_budget("flops=1"), "joint"))
    scorer = made.scorer
    assert isinstance(scorer, Weights)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for u, unit in enumerate(made.problem.units):
        weight = model.get_parameter(unit.name).detach()
        for level in (5, 40, 100, len(unit.choices) - 1):
            choice = unit.choices[level]
            mask = by_density({"w": weight}, choice.ratio, pattern=parse_pattern(choice.pattern))["w"]
            tensor = scorer.tensor(u, level)
            assert torch.equal(tensor != 0, mask) and len(tensor.unique()) <= (1 << (choice.bits or 0)) + 1
    scorer.errors(np.array([[0, 0, 0, 0]]))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_what_has_no_meaning_is_refused() -> None:
    with pytest.raises(CompressError, match="needs a --budget"):
        Wish()
    with pytest.raises(CompressError, match="use --prune channels"):
        Wish(parse_budget("latency=2ms"), "weights")
    one = nn.Sequential(nn.Flatten(), nn.Linear(768, 5))
    with pytest.raises(CompressError, match="at least 2"):
        build(one, examples(), examples(), Wish(parse_budget("flops=0.5")))


def test_norms_of_a_pruned_network_know_what_it_sees() -> None:
    """What the next layer gets has mean 0 and deviation 1 before scale and bias, as in training; nothing else moves."""
    model, held = network("residual"), examples(512)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    made = build(model, held, held, Wish(parse_budget("flops=0.5")))
    scorer = made.scorer
    assert isinstance(scorer, Channels)
    scorer.errors(np.array([[0, 0, 0, 0]]))
    cut = scorer.cut([0, 0, 0, 0], made.example)
    norm = cut.get_submodule("4.residual.4")
    assert isinstance(norm, nn.BatchNorm2d)
    seen: list[torch.Tensor] = []
    norm.register_forward_hook(lambda module, args, out: seen.append((out - norm.bias.view(1, -1, 1, 1)).detach()))
    cut(held.x_N)
    assert torch.allclose(seen[0].mean((0, 2, 3)), torch.zeros(len(norm.bias)), atol=1e-3)
    assert torch.allclose(seen[0].std((0, 2, 3)), norm.weight.abs(), rtol=1e-2)
    assert not model.training and all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
