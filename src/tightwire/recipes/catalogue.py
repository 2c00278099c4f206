"""Every recipe by name, with its paper. A file here without an entry below fails a test."""

from __future__ import annotations

from difflib import get_close_matches

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.recipe import AnyRecipe
from tightwire.recipes.asgd import entry as asgd
from tightwire.recipes.ddl import entry as ddl
from tightwire.recipes.dgc import entry as dgc
from tightwire.recipes.diloco import entry as diloco
from tightwire.recipes.entry import RecipeEntry
from tightwire.recipes.firecaffe import entry as firecaffe
from tightwire.recipes.gossip_pull import entry as gossip_pull
from tightwire.recipes.gossip_push import entry as gossip_push
from tightwire.recipes.large_minibatch import entry as large_minibatch
from tightwire.recipes.lars import entry as lars
from tightwire.recipes.layerwise import entry as layerwise
from tightwire.recipes.local_sgd import entry as local_sgd
from tightwire.recipes.model_average import entry as model_average
from tightwire.recipes.one_bit import entry as one_bit
from tightwire.recipes.one_shot_average import entry as one_shot_average
from tightwire.recipes.post_local_sgd import entry as post_local_sgd
from tightwire.recipes.powersgd import entry as powersgd
from tightwire.recipes.sync_easgd import entry as sync_easgd
from tightwire.recipes.sync_sgd import entry as sync_sgd
from tightwire.recipes.words import spoken

CATALOGUE: dict[str, RecipeEntry] = {
    entry.name: entry
    for entry in (
        sync_sgd,
        large_minibatch,
        lars,
        firecaffe,
        ddl,
        local_sgd,
        post_local_sgd,
        one_shot_average,
        model_average,
        diloco,
        sync_easgd,
        gossip_pull,
        gossip_push,
        asgd,
        one_bit,
        powersgd,
        dgc,
        layerwise,
    )
}


def find(name: str) -> RecipeEntry:
    """A line of the catalogue."""
    if name not in CATALOGUE:
        close = get_close_matches(name, CATALOGUE, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(CATALOGUE)}"
        raise RecipeError(f"there is no recipe {name!r}; {hint}")
    return CATALOGUE[name]


def by_name(name: str, **arguments: object) -> AnyRecipe:
    """A recipe of the catalogue; arguments may be words, as from a command line.

    >>> by_name("local-sgd", tau=3).schedule.tau
    3
    """
    entry = find(name)
    several, named = spoken(entry.make, name, arguments)
    return entry.make(*several, **named)
