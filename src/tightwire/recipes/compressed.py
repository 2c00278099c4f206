"""A recipe with another codec, given in words: ``--recipe diloco --codec topk:0.01``.

The other axes follow: what does not add up is gathered; what a codec leaves out is remembered, unless it is right on
average; and workers that would send weights send their progress instead, because only steps may be rounded.
"""

from __future__ import annotations

from collections.abc import Callable

from tightwire.algebra.check import check
from tightwire.algebra.codec import Codec, Unbiased
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.recipe import AnyRecipe, Recipe, Ways
from tightwire.codecs.chunked import chunked
from tightwire.codecs.dct import dct
from tightwire.codecs.fixed import fixed
from tightwire.codecs.half import half
from tightwire.codecs.lowrank import LowRank, lowrank
from tightwire.codecs.onebit import onebit
from tightwire.codecs.qsgd import qsgd
from tightwire.codecs.randomk import randomk
from tightwire.codecs.sign import sign
from tightwire.codecs.terngrad import terngrad
from tightwire.codecs.threshold import threshold
from tightwire.codecs.topk import topk
from tightwire.exchanges.gather import gather
from tightwire.memories.nothing import Nothing
from tightwire.memories.residual import residual
from tightwire.recipes.words import number_or_word
from tightwire.rules.add import add
from tightwire.rules.average import Average
from tightwire.rules.signals import progress

CODECS: dict[str, Callable[..., Codec]] = {
    "half": half, "topk": topk, "randomk": randomk, "threshold": threshold, "onebit": onebit, "terngrad": terngrad,
    "qsgd": qsgd, "sign": sign, "lowrank": lowrank, "fixed": fixed, "chunked": chunked, "dct": dct,
}  # fmt: skip


def codec_of(text: str) -> Codec:
    """``name:number:key=value``.

    >>> codec_of("topk:0.01:gaps=rice")
    TopK(density=0.01, values='float32', gaps='rice')
    """
    name, *words = text.split(":")
    if name not in CODECS:
        raise RecipeError(f"there is no codec {name!r}; there are {', '.join(CODECS)}")
    plain = [number_or_word(word) for word in words if "=" not in word]
    named = {key: number_or_word(value) for key, _, value in (word.partition("=") for word in words if "=" in word)}
    try:
        return CODECS[name](*plain, **named)
    except TypeError as error:
        raise RecipeError(f"{text!r} is no codec ({error}); write for example topk:0.01") from None


def compressed(recipe: AnyRecipe, text: str) -> Recipe:
    """The recipe with this codec.

    >>> from tightwire.recipes.diloco import diloco
    >>> compressed(diloco(), "topk:0.01").codec.density
    0.01
    """
    if not isinstance(recipe, Recipe) or isinstance(recipe.codec, Ways):
        raise RecipeError(f"{recipe.name} has codecs of its own in several places; --codec is for a recipe with one")
    codec = codec_of(text)
    changed = recipe.but(name=f"{recipe.name}+{text.partition(':')[0]}", codec=codec)
    if recipe.split.stages > 1:  # boundaries carry anything; what was left out of one batch is no part of the next
        check(changed)
        return changed
    if codec.combines not in recipe.exchange.carries:
        changed = changed.but(exchange=gather())
    if isinstance(recipe.memory, Nothing) and not isinstance(codec, Unbiased):
        changed = changed.but(memory=residual("received" if isinstance(codec, LowRank) else "sent"))
    if recipe.send.kind == "position" and isinstance(recipe.center, Average):
        changed = changed.but(send=progress(), center=add())
    check(changed)
    return changed
