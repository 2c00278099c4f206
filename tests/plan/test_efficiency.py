"""Samples to a target, kept apart from the time of a step."""

import pytest
import torch
from torch import nn

from tightwire.plan.cluster import Link, flat
from tightwire.plan.cost import predict
from tightwire.plan.efficiency import (
    Probe,
    crossing,
    explicit_momentum,
    implicit_momentum,
    most_groups,
    noise_scale,
    samples_needed,
    time_to_target,
)  # fmt: skip
from tightwire.plan.equations import best_workers, speedup, speedup_layerwise, speedup_synchronous
from tightwire.plan.errors import PlanError
from tightwire.plan.made import made_profile
from tightwire.recipes.catalogue import by_name


def test_time_is_samples_over_samples_a_second() -> None:
    profile = made_profile({"w": (10, 10)}, forward_s=0.1, backward_s=0.2, batch=8)
    said = predict(by_name("sync-sgd"), profile, flat(Link(0.0, 1e9)), 4)
    found = time_to_target(said, [Probe("sync-sgd", 32, 3200.0), Probe("dgc", 32, 9.0)])
    assert found is not None and found.basis == "probed"
    assert found.seconds == pytest.approx(100 * said.step_s)
    assert time_to_target(said, [Probe("dgc", 32, 9.0)]) is None


def test_between_two_batches_the_law_holds() -> None:
    least, noise = 1000.0, 64.0
    probes = [Probe("r", batch, least * (1 + batch / noise)) for batch in (16, 256)]
    for batch in (32, 128, 512):
        truth = least * (1 + batch / noise)
        two = samples_needed("r", batch, probes)
        one = samples_needed("r", batch, probes[:1], noise=noise)
        assert two is not None and two.samples == pytest.approx(truth)
        assert one is not None and one.samples == pytest.approx(truth)
    assert samples_needed("r", 32, probes[:1]) is None


def test_a_target_is_crossed_once() -> None:
    assert crossing([10, 20, 30], [0.1, 0.5, 0.3], 0.3) == 15.0
    assert crossing([10, 20], [0.1, 0.2], 0.3) is None
    assert crossing([10], [0.5], 0.3) == 10.0


def test_the_noise_of_a_known_gradient_is_found() -> None:
    """Gradient of w·x is x: mean 1 in each of 10 directions, variance 4: noise scale 4·10/10."""
    torch.manual_seed(0)
    model = nn.Linear(10, 1, bias=False)
    batches = [(1 + 2 * torch.randn(50, 10), None) for _ in range(400)]
    found = noise_scale(model, batches, lambda out, _: out.mean())
    assert found == pytest.approx(4.0, rel=0.15)
    with pytest.raises(PlanError, match="at least two"):
        noise_scale(model, batches[:1], lambda out, _: out.mean())


def test_asynchrony_is_momentum() -> None:
    for groups in (1, 2, 5, 10):
        assert implicit_momentum(groups) + explicit_momentum(0.9, groups) == pytest.approx(0.9)
    assert implicit_momentum(20) > 0.9 and explicit_momentum(0.9, 20) == 0.0
    assert most_groups(0.75) == 4
    for wrong in (lambda: implicit_momentum(0), lambda: most_groups(1.0)):
        with pytest.raises(PlanError):
            wrong()


def test_the_equations_of_the_layerwise_paper() -> None:
    """T_calc 149.3 ms and T_comm 23.7 ms give the paper's own S ≈ 3.1 and P ≈ 3."""
    assert speedup(0.1493, 0.0237, 8) == pytest.approx(3.15, abs=0.01)
    assert speedup(0.1493, 0.0, 8) == 8 and best_workers(0.1493, 0.0237) == pytest.approx(3.15, abs=0.01)
    assert speedup_synchronous(0.1493, 0.0237, 8) < speedup(0.1493, 0.0237, 8)
    assert speedup_layerwise([1.0] * 4) == 4 and speedup_layerwise([1.0, 1.0], t_boundary_s=4.0) == 0.5
    with pytest.raises(PlanError):
        speedup(0.0, 1.0, 2)
