"""Parts of a recipe as plain data: a schedule, a rule, a codec told to a server in another process. No pickle.

    Ssp(staleness=3)  ⇄  {"$part": "tightwire.schedules.bounded:Ssp", "with": {"staleness": 3}}

A part is a frozen dataclass, so its class and its fields are all there is to it. Only classes of our own axes are made,
and those that a package has announced on the server's own machine (entry points ``tightwire.codecs`` and so on).
"""

from __future__ import annotations

import pkgutil
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from tightwire.algebra.errors import PayloadError, RecipeError

_AXES = ("algebra", "codecs", "memories", "schedules", "rules")
_DEEPEST = 8


def told(part: Any) -> Any:
    """A part as plain data; refuses what has no such form, a function of the user's own for example.

    >>> from tightwire.algebra.world import World
    >>> told(World(1, 2))["$part"]
    'tightwire.algebra.world:World'
    """
    if part is None or isinstance(part, bool | int | float | str):
        return part
    if isinstance(part, tuple):
        return {"$tuple": [told(one) for one in part]}
    if is_dataclass(part) and not isinstance(part, type):
        name = f"{type(part).__module__}:{type(part).__qualname__}"
        if _known(name) is type(part):
            return {"$part": name, "with": {f.name: told(getattr(part, f.name)) for f in fields(part) if f.init}}
    raise RecipeError(
        f"{part!r} cannot be told to a server that stands alone, which knows only announced parts; leave out --server, "
        "and the workers keep it themselves"
    )


def heard(data: Any, depth: int = 0) -> Any:
    """The part again; refuses what `told` did not make."""
    if depth > _DEEPEST:
        raise PayloadError(f"a part nested more than {_DEEPEST} deep")
    match data:
        case None | bool() | int() | float() | str():
            return data
        case {"$tuple": list(children)} if len(data) == 1:
            return tuple(heard(child, depth + 1) for child in children)
        case {"$part": str(name), "with": dict(given)} if len(data) == 2:
            return _make(name, {key: heard(value, depth + 1) for key, value in given.items()})
        case _:
            raise PayloadError(f"{str(data)[:80]} is no part of a recipe")


def _make(name: str, given: dict[str, Any]) -> Any:
    kind = _known(name)
    if kind is None:
        raise PayloadError(f"{name[:80]!r} is no part that is known here; is its package installed on the server?")
    if set(given) != {f.name for f in fields(kind) if f.init}:
        raise PayloadError(f"{name} has other fields here; workers and server need the same version of tightwire")
    try:
        return kind(**given)
    except (TypeError, ValueError) as error:
        raise PayloadError(f"{name} cannot be made: {error}") from None


@cache
def _known(name: str) -> Any:
    """The class of that name, if it is one of ours or announced here. Nothing else is imported."""
    module, _, attribute = name.partition(":")
    if module not in _modules() and name not in _announced():
        return None
    kind = getattr(import_module(module), attribute, None)
    ours = isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == module
    return kind if ours else None


@cache
def _modules() -> frozenset[str]:
    found = set()
    for axis in _AXES:
        package = import_module(f"tightwire.{axis}")
        found |= {f"{package.__name__}.{module.name}" for module in pkgutil.iter_modules(package.__path__)}
    return frozenset(found)


@cache
def _announced() -> frozenset[str]:
    return frozenset(point.value for axis in _AXES for point in entry_points(group=f"tightwire.{axis}"))
