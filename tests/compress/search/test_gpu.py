"""A search whose network and samples lie on a GPU: the same errors as on the CPU, measured alone and stacked."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch

from tests.compress.search.toys import NETWORKS, examples, network
from tightwire.compress.retrain import Examples, Training, evaluate, train
from tightwire.compress.search import rivals
from tightwire.compress.search.amc import Search
from tightwire.compress.search.budget import parse_budget
from tightwire.compress.search.build import Built, Prune, Wish, build
from tightwire.compress.search.channels import Channels
from tightwire.compress.search.curvature import foresee
from tightwire.compress.search.ddpg import Settings
from tightwire.compress.search.measure import Measure
from tightwire.compress.search.problem import best

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def _built(name: str, prune: Prune, device: str) -> Built:
    some = examples(512)
    held = Examples(some.x_N.to(device), some.y_N.to(device))
    return build(deepcopy(network(name)).to(device), held, held, Wish(parse_budget("flops=0.5"), prune, multiple_of=2))


@pytest.mark.parametrize("prune", ["channels", "weights", "joint"])
@pytest.mark.parametrize("name", NETWORKS)
def test_errors_are_those_of_the_cpu(name: str, prune: Prune) -> None:
    here, there = (_built(name, prune, device) for device in ("cpu", "cuda"))
    random = np.random.default_rng(0)
    asked = np.stack([random.integers(len(unit.choices), size=6) for unit in here.problem.units], 1)
    level_BT = here.problem.clip.walk(asked)
    assert np.array_equal(level_BT, there.problem.clip.walk(asked))
    errors = [built.scorer.errors(level_BT) for built in (here, there)]
    assert np.allclose(*errors, atol=0.05)  # halves on the GPU: some answers of an untrained network are close
    versions = [there.scorer.version([int(level) for level in row]) for row in level_BT]
    measure = there.scorer.measure
    one, three = (Measure(measure.model, measure.examples, together, measure.seen_N) for together in (1, 3))
    assert np.allclose(one.errors(versions), three.errors(versions), atol=0.05)


@pytest.mark.parametrize("name", NETWORKS)
def test_harm_is_foreseen_as_on_the_cpu(name: str) -> None:
    here, there = (_built(name, "channels", device) for device in ("cpu", "cuda"))
    for mine, others in zip(foresee(here.scorer), foresee(there.scorer), strict=True):  # type: ignore[arg-type]
        assert np.allclose(mine, others, rtol=0.05, atol=0.01 * mine.max())


def test_a_search_runs_there_and_its_network_is_cut() -> None:
    built = _built("residual", "channels", "cuda")
    found = best(Search(built.problem, settings=Settings(hidden=16, warmup=5), seed=0).run(15))
    (even,) = rivals.uniform(built.problem, 1, told=lambda number, tried: None)
    assert found.reward >= even.reward and found.cost <= built.problem.clip.target
    scorer = built.scorer
    assert isinstance(scorer, Channels)
    cut = scorer.cut(found.levels, built.example)
    assert abs(1 - evaluate(cut, scorer.measure.examples).accuracy - found.error) < 0.05


def test_a_network_that_was_cut_is_trained_by_recorded_steps() -> None:
    built = _built("residual", "channels", "cuda")
    assert isinstance(built.scorer, Channels)
    cut = built.scorer.cut([1] * len(built.problem.units), built.example)
    held = built.scorer.measure.examples
    train(cut, held, Training(epochs=8, batch=64, optimizer="sgd", lr=0.01))  # a notice would be an error here
