"""Every recipe of the catalogue through the recipes' suite."""

import pkgutil

import pytest

import tightwire.recipes
from tightwire.recipes.catalogue import CATALOGUE
from tightwire.recipes.entry import Equals, RecipeEntry
from tightwire.testing import recipes

entries = pytest.mark.parametrize("entry", CATALOGUE.values(), ids=list(CATALOGUE))
NOT_RECIPES = {"catalogue", "compressed", "entry", "make", "words"}


def test_every_file_is_in_the_catalogue() -> None:
    files = {info.name for info in pkgutil.iter_modules(tightwire.recipes.__path__)} - NOT_RECIPES
    assert files == {entry.make.__module__.rpartition(".")[2] for entry in CATALOGUE.values()}


@pytest.mark.parametrize(
    "law", [pytest.param(law, id=f"{e.name}: {law.says}") for e in CATALOGUE.values() for law in e.laws]
)
def test_degenerate_case(law: Equals) -> None:
    recipes.check_degenerate(law)


@entries
def test_states_a_degenerate_case(entry: RecipeEntry) -> None:
    assert entry.laws, f"{entry.name} does not say what it equals"


@entries
def test_deterministic(entry: RecipeEntry) -> None:
    recipes.check_deterministic(entry)


@entries
def test_grain_is_invisible(entry: RecipeEntry) -> None:
    # Matrix products round differently where a matrix begins elsewhere in memory.
    recipes.check_grain(entry, within=1e-5 if entry.name == "powersgd" else 0.0)


@entries
def test_resumes(entry: RecipeEntry) -> None:
    recipes.check_resumes(entry)


@entries
@pytest.mark.parametrize("workers", [1, 3, 5])
def test_new_world(entry: RecipeEntry, workers: int) -> None:
    recipes.check_new_world(entry, workers)
