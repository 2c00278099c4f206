"""A distributed training method as a value: ten axes, closed under three combinators.

    local  send  memory  codec  exchange  schedule  center  adopt  grain  split

    phases((1000, a), (forever, b))        a for the first 1000 steps, then b
    tiers(a, b, by=host)                   a inside each host, b between the hosts
    parts((one_dimensional, a), (…, b))    a for some tensors, b for others
    ways(up=x, down=y)                     a codec or memory for each direction

There is no eleventh axis: what does not fit is a plain loop in ``examples/``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from types import FunctionType
from typing import Generic, Literal, TypeAlias, TypeVar

from tightwire.algebra.codec import Codec
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.exchange import Exchange
from tightwire.algebra.grain import Grain
from tightwire.algebra.memory import Memory
from tightwire.algebra.rule import Adopt, Local, Rule, Signal
from tightwire.algebra.schedule import Schedule
from tightwire.algebra.split import Split
from tightwire.algebra.world import Grouping, host

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
forever = 2**62
"""The end of the last phase."""

Buffers = Literal["average", "first", "local"]
"""Batch-norm statistics and other buffers in the answer: the mean over workers, rank 0's, or each worker's own."""


@dataclass(frozen=True)
class Ways(Generic[T_co]):
    """One part for the way up (worker to centre) and one for the way down."""

    up: T_co
    down: T_co


@dataclass(frozen=True)
class Recipe:
    """A training method with all ten axes filled. ``recipes.recipe(…)`` supplies the usual values."""

    name: str
    local: Local
    send: Signal
    memory: Memory | Ways[Memory]
    codec: Codec | Ways[Codec]
    exchange: Exchange
    schedule: Schedule
    center: Rule
    adopt: Adopt
    grain: Grain
    split: Split
    buffers: Buffers = "average"

    def but(self, **axes: object) -> Recipe:
        """The same recipe with some axes changed."""
        return replace(self, **axes)  # type: ignore[arg-type]

    @property
    def up(self) -> tuple[Memory, Codec]:
        """Memory and codec from worker to centre."""
        return _way(self.memory, "up"), _way(self.codec, "up")

    @property
    def down(self) -> tuple[Memory, Codec]:
        """Memory and codec from centre to worker."""
        return _way(self.memory, "down"), _way(self.codec, "down")


def _way(part: T | Ways[T], way: Literal["up", "down"]) -> T:
    if isinstance(part, Ways):
        return part.up if way == "up" else part.down
    return part


@dataclass(frozen=True)
class Phase:
    """A recipe that holds until a step (exclusive)."""

    until: int
    recipe: AnyRecipe


@dataclass(frozen=True)
class Phases:
    """One recipe after another."""

    name: str
    legs: tuple[Phase, ...]

    def active(self, step: int) -> AnyRecipe:
        """The recipe that holds at ``step``."""
        return next(leg.recipe for leg in self.legs if step < leg.until)


@dataclass(frozen=True)
class Tiers:
    """One recipe inside each group of workers, another between the groups."""

    name: str
    inner: Recipe
    outer: AnyRecipe
    by: Grouping


Match = Callable[[str, tuple[int, ...]], bool]
"""Says of a tensor, by name and shape, whether it belongs to a part."""


@dataclass(frozen=True)
class Choice:
    """The tensors that match go by this recipe."""

    match: Match
    recipe: AnyRecipe


@dataclass(frozen=True)
class Parts:
    """Different recipes for different tensors; the first match decides."""

    name: str
    choices: tuple[Choice, ...]


AnyRecipe: TypeAlias = Recipe | Phases | Tiers | Parts


def phases(*legs: tuple[int, AnyRecipe], name: str = "phases") -> Phases:
    """Recipes one after another, each until a step; the last one until `forever`."""
    return Phases(name, tuple(Phase(until, recipe) for until, recipe in legs))


def tiers(inner: Recipe, outer: AnyRecipe, *, by: Grouping = host, name: str = "tiers") -> Tiers:
    """``inner`` inside each group, ``outer`` between the groups, whose first members speak for them."""
    return Tiers(name, inner, outer, by)


def parts(*choices: tuple[Match, AnyRecipe], name: str = "parts") -> Parts:
    """A recipe for each set of tensors; the first match decides."""
    return Parts(name, tuple(Choice(match, recipe) for match, recipe in choices))


def ways(*, up: T, down: T) -> Ways[T]:
    """A codec or memory for each direction."""
    return Ways(up, down)


def everything(name: str, shape: tuple[int, ...]) -> bool:
    """Match every tensor."""
    return True


def one_dimensional(name: str, shape: tuple[int, ...]) -> bool:
    """Match biases, norm weights and scalars."""
    return len(shape) <= 1


@dataclass(frozen=True)
class Leaf:
    """A recipe without combinators, for one moment and some tensors; ``inner`` and ``by`` come from `tiers`."""

    recipe: Recipe
    inner: Recipe | None = None
    by: Grouping | None = None


def resolve(recipe: AnyRecipe, shapes: Mapping[str, tuple[int, ...]], step: int) -> list[tuple[Leaf, tuple[str, ...]]]:
    """What a recipe is at ``step`` for each tensor: the leaves with their tensors, in the order of ``shapes``."""
    match recipe:
        case Recipe():
            return [(Leaf(recipe), tuple(shapes))] if shapes else []
        case Phases():
            return resolve(recipe.active(step), shapes, step)
        case Tiers():
            outer = resolve(recipe.outer, shapes, step)
            return [(Leaf(leaf.recipe, recipe.inner, recipe.by), names) for leaf, names in outer]
        case Parts():
            found: list[tuple[Leaf, tuple[str, ...]]] = []
            left = dict(shapes)
            for choice in recipe.choices:
                taken = {name: shape for name, shape in left.items() if choice.match(name, shape)}
                left = {name: shape for name, shape in left.items() if name not in taken}
                found += resolve(choice.recipe, taken, step)
            if left:
                raise RecipeError(
                    f"{recipe.name}: no part matches {', '.join(left)}; end parts(…) with (everything, …)"
                )
            return found


def changes_at(recipe: AnyRecipe) -> frozenset[int]:
    """The steps at which a phase somewhere in the recipe begins."""
    match recipe:
        case Recipe():
            return frozenset()
        case Phases():
            own = {leg.until for leg in recipe.legs if leg.until < forever}
            return frozenset(own.union(*(changes_at(leg.recipe) for leg in recipe.legs)))
        case Tiers():
            return changes_at(recipe.outer)
        case Parts():
            return frozenset().union(*(changes_at(choice.recipe) for choice in recipe.choices))


def leaves(recipe: AnyRecipe) -> list[Leaf]:
    """Every leaf of a recipe, whenever and for whatever tensors it holds."""
    match recipe:
        case Recipe():
            return [Leaf(recipe)]
        case Phases():
            return [leaf for leg in recipe.legs for leaf in leaves(leg.recipe)]
        case Tiers():
            return [Leaf(leaf.recipe, recipe.inner, recipe.by) for leaf in leaves(recipe.outer)]
        case Parts():
            return [leaf for choice in recipe.choices for leaf in leaves(choice.recipe)]


def describe(recipe: AnyRecipe, without: frozenset[str] = frozenset()) -> str:
    """One line that two workers can compare: the same text means the same recipe, but for axes left out."""
    match recipe:
        case Recipe():
            left_out = without | {"name"}
            axes = (f"{axis}={_plain(value)}" for axis, value in vars(recipe).items() if axis not in left_out)
            return f"{recipe.name}({', '.join(axes)})"
        case Phases():
            return f"phases({', '.join(f'({leg.until}, {describe(leg.recipe, without)})' for leg in recipe.legs)})"
        case Tiers():
            inner, outer = describe(recipe.inner, without), describe(recipe.outer, without)
            return f"tiers({inner}, {outer}, by={_plain(recipe.by)})"
        case Parts():
            inside = (f"({_plain(choice.match)}, {describe(choice.recipe, without)})" for choice in recipe.choices)
            return f"parts({', '.join(inside)})"


def _plain(value: object) -> str:
    """A value's text: the same in every process, so without memory addresses."""
    match value:
        case partial():
            return f"partial({_plain(value.func)}, {_plain(value.args)}, {_plain(value.keywords)})"
        case FunctionType():
            code = value.__code__
            which = zlib.crc32(code.co_code + repr(code.co_consts).encode()) if "<lambda>" in value.__qualname__ else ""
            return f"{value.__module__}.{value.__qualname__}{which}"
        case tuple() | list():
            return f"({', '.join(map(_plain, value))})"
        case dict():
            return f"{{{', '.join(f'{key}: {_plain(inside)}' for key, inside in sorted(value.items()))}}}"
    if is_dataclass(value) and not isinstance(value, type):
        inside = {f.name: getattr(value, f.name) for f in fields(value)}
    elif type(value).__repr__ is object.__repr__:
        inside = dict(vars(value)) if hasattr(value, "__dict__") else {}
    else:
        return repr(value)
    return f"{type(value).__qualname__}({', '.join(f'{name}={_plain(part)}' for name, part in inside.items())})"
