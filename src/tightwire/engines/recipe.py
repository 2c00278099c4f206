"""The recipe that a run's configuration names."""

from __future__ import annotations

from tightwire.algebra.recipe import AnyRecipe
from tightwire.engines.config import RunConfig
from tightwire.recipes.catalogue import by_name
from tightwire.recipes.compressed import compressed


def make_recipe(config: RunConfig) -> AnyRecipe:
    """From the catalogue, with its parameters, and with another codec if one is named."""
    recipe = by_name(config.recipe, **config.params)
    return recipe if config.codec is None else compressed(recipe, config.codec)
