"""`recipe(…)`: the usual value for every axis that is not named; `split_model(…)`: those of a model in pieces."""

from __future__ import annotations

from tightwire.algebra import split as splits
from tightwire.algebra.check import check
from tightwire.algebra.codec import Codec
from tightwire.algebra.exchange import Exchange
from tightwire.algebra.grain import Grain, bucket
from tightwire.algebra.memory import Memory
from tightwire.algebra.recipe import Buffers, Recipe, Ways
from tightwire.algebra.rule import Adopt, Local, Rule, Signal
from tightwire.algebra.schedule import Schedule
from tightwire.algebra.split import Split
from tightwire.codecs.dense import dense
from tightwire.exchanges.allreduce import allreduce
from tightwire.exchanges.nobody import nobody
from tightwire.memories.nothing import nothing
from tightwire.rules.adopt import overwrite
from tightwire.rules.average import average
from tightwire.rules.signals import gradient
from tightwire.rules.yours import no_local, yours
from tightwire.schedules.clock import every_step


def recipe(  # noqa: PLR0913 -- one argument an axis
    name: str = "recipe",
    *,
    local: Local = no_local(),  # noqa: B008 -- parts are frozen values
    send: Signal = gradient(),  # noqa: B008
    memory: Memory | Ways[Memory] = nothing(),  # noqa: B008
    codec: Codec | Ways[Codec] = dense(),  # noqa: B008
    exchange: Exchange = allreduce(),  # noqa: B008
    schedule: Schedule = every_step(),  # noqa: B008
    center: Rule = yours(),  # noqa: B008
    adopt: Adopt = overwrite(),  # noqa: B008
    grain: Grain = bucket(),  # noqa: B008
    split: Split = splits.whole,
    buffers: Buffers = "average",
) -> Recipe:
    """A recipe, checked; without arguments it is synchronous SGD.

    >>> recipe("mine").exchange.native
    'all_reduce'
    """
    made = Recipe(name, local, send, memory, codec, exchange, schedule, center, adopt, grain, split, buffers)
    check(made)
    return made


def split_model(name: str, split: Split) -> Recipe:
    """Each worker moves the pieces it has by your optimizer; what crosses the wire is the split's own matter."""
    return recipe(name, local=yours(), exchange=nobody(), center=average(), split=split)
