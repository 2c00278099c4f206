"""What a recipe does to the optimisation, read off its axes: a faster step is worth nothing where it learns less.

    same      the steps of plain synchronous SGD, whatever the wire looks like
    rounded   the same steps with compressed gradients
    apart     workers move by themselves between exchanges
    stale     workers compute with weights that have moved on

A plan compares steps. Only `same` makes equal steps worth the same; of the others short runs must tell (`efficiency`).
"""

from __future__ import annotations

from typing import Literal

from tightwire.algebra.codec import UsesFactors
from tightwire.algebra.recipe import AnyRecipe, Recipe, leaves
from tightwire.rules.yours import NoLocal
from tightwire.schedules.quorum import Backups

Kind = Literal["same", "rounded", "apart", "stale"]
KINDS: tuple[Kind, ...] = ("same", "rounded", "apart", "stale")
WORDS: dict[Kind, str] = {
    "same": "the steps of synchronous SGD",
    "rounded": "the same steps, gradients compressed",
    "apart": "workers drift apart between exchanges",
    "stale": "workers compute with old weights",
}


def kind_of(recipe: AnyRecipe) -> Kind:
    """The gravest kind among a recipe's leaves.

    >>> from tightwire.recipes.catalogue import by_name
    >>> [kind_of(by_name(name)) for name in ("ddl", "poseidon", "dgc", "local-sgd", "asgd", "layerwise")]
    ['same', 'same', 'rounded', 'apart', 'stale', 'stale']
    """
    found = {_kind(leaf.recipe) for leaf in leaves(recipe)}
    return max(found, key=KINDS.index)


def keeps(kind: Kind) -> bool:
    """Whether every worker contributes to every step, from the same weights."""
    return kind in ("same", "rounded")


def _kind(leaf: Recipe) -> Kind:
    if leaf.split.stages > 1:
        return "same" if leaf.split.flush else "stale"
    if not (leaf.schedule.lockstep or isinstance(leaf.schedule, Backups)):
        return "stale"
    if not isinstance(leaf.local, NoLocal) or leaf.exchange.pattern in ("peers", "memory", "nobody"):
        return "apart"
    codecs = (leaf.up[1], leaf.down[1])
    exact = all(codec.identity or isinstance(codec, UsesFactors) for codec in codecs)
    return "same" if exact else "rounded"
