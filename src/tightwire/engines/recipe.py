"""The recipe that a run's configuration names."""

from __future__ import annotations

from tightwire.algebra.recipe import AnyRecipe, leaves
from tightwire.algebra.schedule import Meta, Verdict, View
from tightwire.engines.config import RunConfig
from tightwire.lab.rate import parse_rate
from tightwire.recipes.catalogue import by_name
from tightwire.recipes.compressed import compressed

_FAR = 10**9
SLOW_BITS_PER_SECOND = 1e9


def make_recipe(config: RunConfig) -> AnyRecipe:
    """From the catalogue, with its parameters, and with another codec if one is named.

    Stages of a split model send halves to each other over a link that is known to be slow, unless a codec is named.
    """
    recipe = by_name(config.recipe, **config.params)
    codec = config.codec
    if codec is None and any(leaf.recipe.split.stages > 1 for leaf in leaves(recipe)) and _is_slow(config):
        codec = "half"
    return recipe if codec is None else compressed(recipe, codec)


def _is_slow(config: RunConfig) -> bool:
    rate = config.lab or config.link
    return rate is not None and parse_rate(rate).bits_per_second < SLOW_BITS_PER_SECOND


def needs_server(recipe: AnyRecipe) -> bool:
    """True if a recipe has a parameter server."""
    return any(leaf.recipe.exchange.pattern == "server" for leaf in leaves(recipe))


def runs_apart(recipe: AnyRecipe) -> bool:
    """True if workers need not be at the same step in some phase of a recipe."""
    return any(not leaf.recipe.schedule.lockstep for leaf in leaves(recipe))


def drifts(recipe: AnyRecipe) -> bool:
    """True if a worker may run ahead of the others without end: nothing holds it, however far it has come."""
    far = Meta(1, clock=_FAR)
    view = View(clocks={0: 0, 1: _FAR + 1})
    return any(
        not schedule.lockstep and schedule.admit(view, far) is not Verdict.WAIT and schedule.serve(view, far)
        for schedule in (leaf.recipe.schedule for leaf in leaves(recipe))
    )
