"""Parts as words on a command line."""

import pytest

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.grain import bucket, tensor, whole
from tightwire.algebra.recipe import Recipe
from tightwire.engines.config import parse_recipe
from tightwire.recipes.catalogue import by_name


def grain(text: str) -> object:
    """The grain of a recipe as it is given on a command line."""
    name, params = parse_recipe(text)
    made = by_name(name, **params)
    assert isinstance(made, Recipe)
    return made.grain


def test_buckets_are_given_in_mebibytes_or_by_name() -> None:
    assert grain("sync-sgd:grain=4") == bucket(4)
    assert grain("sync-sgd:grain=0.5") == bucket(0.5, 0.5)  # the first is never larger than the others
    assert grain("sync-sgd:grain=tensor") == tensor()
    assert grain("sync-sgd:grain=whole") == whole()
    assert grain("sync-sgd") == bucket()


@pytest.mark.parametrize("value", ["0", "-1", "much"])
def test_other_grains_are_refused_with_what_there_is(value: str) -> None:
    with pytest.raises(RecipeError, match="give the MiB of a bucket, such as 4, or one of tensor, whole"):
        grain(f"sync-sgd:grain={value}")
