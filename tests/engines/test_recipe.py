"""Which recipes let workers run apart, and which without end."""

import pytest

from tightwire.engines.config import RunConfig
from tightwire.engines.recipe import drifts, make_recipe, needs_server, runs_apart
from tightwire.recipes.catalogue import CATALOGUE

CLOSE = {"ssp", "bounded-delay", "round-robin-easgd"}
FREE = {
    "asgd", "downpour", "softsync", "staleness-aware", "asysg-con", "backup-workers", "easgd", "eamsgd", "mdownpour",
    "async-easgd", "async-measgd", "agn", "adag", "dynsgd", "project-adam", "omnivore",
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in CATALOGUE if needs_server(make_recipe(RunConfig(recipe=name)))])
def test_every_server_recipe_is_one_or_the_other(name: str) -> None:
    recipe = make_recipe(RunConfig(recipe=name))
    assert (runs_apart(recipe), drifts(recipe)) == (name in CLOSE | FREE, name in FREE), name


def test_workers_without_a_server_in_lockstep_do_not_drift() -> None:
    assert not drifts(make_recipe(RunConfig(recipe="sync-sgd")))
    assert not runs_apart(make_recipe(RunConfig(recipe="local-sgd")))
