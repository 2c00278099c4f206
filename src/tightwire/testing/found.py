"""Every implementation there is: ours by looking into the axis folders, third parties' by their entry points.

A module of ours lists instances to be tested as ``examples``. A package of yours names a function (or instance) in the
entry-point group of its axis: ``tightwire.codecs``, ``tightwire.memories``, ``tightwire.exchanges``,
``tightwire.schedules``, ``tightwire.rules``, ``tightwire.splits``.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from tightwire.algebra.codec import Codec
from tightwire.algebra.exchange import Exchange
from tightwire.algebra.memory import Memory
from tightwire.algebra.rule import Adopt, Rule, Signal
from tightwire.algebra.schedule import Schedule
from tightwire.algebra.split import Split

AXES: dict[str, tuple[type, ...]] = {
    "codecs": (Codec,),
    "memories": (Memory,),
    "exchanges": (Exchange,),
    "schedules": (Schedule,),
    "rules": (Rule, Signal, Adopt),
    "splits": (Split,),
}


def found(axis: str, protocol: type | None = None) -> list[Any]:
    """All examples of an axis; of one protocol, where a folder holds several."""
    built_in = [example for module in _modules(axis) for example in getattr(module, "examples", ())]
    foreign = []
    for point in entry_points(group=f"tightwire.{axis}"):
        part = point.load()
        foreign.append(part() if inspect.isfunction(part) or inspect.isclass(part) else part)
    return [part for part in (*built_in, *foreign) if protocol is None or isinstance(part, protocol)]


def untested(axis: str) -> list[str]:
    """Implementations of an axis that no example stands for: must be empty."""
    tested = {type(example) for example in found(axis)}
    return [f"{cls.__module__}.{cls.__name__}" for cls in _implementations(axis) if cls not in tested]


def _implementations(axis: str) -> Iterator[type]:
    for module in _modules(axis):
        for cls in vars(module).values():
            ours = inspect.isclass(cls) and cls.__module__ == module.__name__
            if ours and any(_implements(cls, protocol) for protocol in AXES[axis]):
                yield cls


def _implements(cls: type, protocol: type) -> bool:
    members = [name for name in vars(protocol) if not name.startswith("_")]
    return all(hasattr(cls, member) or member in getattr(cls, "__dataclass_fields__", ()) for member in members)


def _modules(axis: str) -> list[Any]:
    package = import_module(f"tightwire.{axis}")
    return [import_module(f"{package.__name__}.{info.name}") for info in pkgutil.iter_modules(package.__path__)]
