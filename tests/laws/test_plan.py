"""Laws of the planner, over every recipe of the catalogue."""

from dataclasses import replace
from functools import cache
from inspect import signature
from itertools import pairwise

import pytest

from tightwire.algebra.recipe import AnyRecipe, leaves
from tightwire.plan.cluster import PERFECT, Link, Tier, flat, parse_link
from tightwire.plan.codings import _pairs
from tightwire.plan.cost import predict
from tightwire.plan.errors import PlanError
from tightwire.plan.layout import lay_out
from tightwire.plan.made import made_profile
from tightwire.plan.profile import Coding, Profile, coding_key
from tightwire.plan.simulate import simulate
from tightwire.recipes.catalogue import CATALOGUE

SHAPES = {"a.w": (300, 200), "a.b": (300,), "b.w": (400, 300), "c.w": (300, 400), "d.w": (50, 300)}
WIRE = flat(parse_link("1gbit,0.1ms"))
BANDWIDTHS = (1e5, 1e6, 1e7, 1e8, 1e9, 1e10)


@cache
def recipe_of(name: str, workers: int) -> AnyRecipe:
    make = CATALOGUE[name].make
    knobs = [knob for knob in ("stages", "workers") if knob in signature(make).parameters]
    return make(**dict.fromkeys(knobs, workers))


def split(name: str) -> bool:
    return leaves(recipe_of(name, 2))[0].recipe.split.stages > 1


@cache
def profile() -> Profile:
    """Nothing but passes takes time: codecs are free, and as full as they can be."""
    made = made_profile(SHAPES, forward_s=0.02, backward_s=0.04, batch=32, activation_nbytes=40_000)
    free = Coding(0.0, 0.0, 0.0, 1, 1, 1)
    pairs = [pair for name in CATALOGUE for leaf in leaves(recipe_of(name, 4)) for pair in _pairs(leaf.recipe)]
    return made.but(codings={coding_key(memory, codec): free for memory, codec in pairs})


def possible(name: str, workers: int = 4) -> AnyRecipe:
    """A recipe that can run on hosts of one worker each, or a skipped test."""
    if name in ("hogwild", "asysg-incon", "hogwild-easgd"):
        with pytest.raises(PlanError, match="one memory"):
            predict(recipe_of(name, workers), profile(), WIRE, workers)
        pytest.skip("needs one host")
    if name == "weird-trick":
        with pytest.raises(PlanError, match="cannot be predicted yet"):
            predict(recipe_of(name, workers), profile(), WIRE, workers)
        pytest.skip("not predicted yet")
    return recipe_of(name, workers)


@pytest.mark.parametrize("name", CATALOGUE)
def test_one_worker_is_one_worker(name: str) -> None:
    said = predict(recipe_of(name, 1), profile(), WIRE, 1)
    assert said.speedup == pytest.approx(1.0) and said.efficiency == pytest.approx(1.0)
    assert said.tx_nbytes == said.rx_nbytes == 0


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_wider_wire_is_never_slower(name: str) -> None:
    recipe = possible(name)
    steps = [predict(recipe, profile(), WIRE.scaled(bandwidth), 4).step_s for bandwidth in BANDWIDTHS]
    assert all(wide <= 1.01 * narrow for narrow, wide in pairwise(steps)), steps


@pytest.mark.parametrize("workers", [4, 7])
@pytest.mark.parametrize("name", [name for name in CATALOGUE if not split(name)])
def test_a_perfect_wire_gives_as_much_as_there_are_workers(name: str, workers: int) -> None:
    recipe = possible(name)
    said = predict(recipe, profile(), flat(PERFECT), workers)
    assert said.speedup == pytest.approx(workers, rel=1e-6)


def test_a_perfect_wire_gives_balanced_stages_as_much_as_there_are_workers() -> None:
    even = made_profile({f"l{i}": (100, 100) for i in range(4)}, forward_s=0.02, backward_s=0.04, batch=8)
    for name in ("layerwise", "pipedream"):
        assert predict(recipe_of(name, 4), even, flat(PERFECT), 4).speedup == pytest.approx(4, rel=1e-6)


def lockstep(name: str) -> bool:
    if split(name):
        return True
    ways = lay_out(recipe_of(name, 4), profile(), WIRE, 4, step=10**6)
    return all(way.collective and way.pattern != "peers" and way.recipe.schedule.lockstep for way in ways)


@pytest.mark.parametrize("link", ["1gbit,0.1ms", "20mbit,1ms", "100gbit,5us"])
@pytest.mark.parametrize("name", [name for name in CATALOGUE if lockstep(name)])
def test_simulated_and_closed_form_agree_where_all_keep_step(name: str, link: str) -> None:
    if split(name) and link == "20mbit,1ms":
        pytest.skip("stages that wait for the wire keep no step")
    recipe, cluster = possible(name), flat(parse_link(link))
    ways = lay_out(recipe, profile(), cluster, 4, step=10**6)
    period = max(1, *(way.push_every for way in ways)) if not split(name) else 1
    trace = simulate(recipe, profile(), cluster, 4, steps=4 * period if period > 1 else 24)
    said = predict(recipe, profile(), cluster, 4)
    assert trace.steady_step_s == pytest.approx(said.step_s, rel=0.01)


@pytest.mark.parametrize("name", ["sync-sgd", "dgc", "one-bit", "powersgd", "local-sgd"])
def test_they_agree_on_tiers_too(name: str) -> None:
    tiers = (Tier("device", 4, Link(1e-5, 1e10)), Tier("host", 0, Link(1e-4, 1e8)))
    cluster = replace(WIRE, tiers=tiers)
    recipe = possible(name)
    period = max(1, *(way.push_every for way in lay_out(recipe, profile(), cluster, 8, step=10**6)))
    trace = simulate(recipe, profile(), cluster, 8, steps=6 * period)
    said = predict(recipe, profile(), cluster, 8)
    assert trace.steady_step_s == pytest.approx(said.step_s, rel=0.05)
    sent = sum(trace.tx_nbytes) / len(trace.step_s)
    assert sent == pytest.approx(said.tx_nbytes, rel=1e-3)
