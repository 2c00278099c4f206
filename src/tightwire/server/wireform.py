"""Events and replies as plain data and tensors, for links that leave the process. No pickle: what comes cannot run.

    Push(0, 7, Meta(0, 7, 3), {"w": t})  ⇄  {"kind": "Push", "fields": {…, "wires": {"w": {"$tensor": 0}}}}, [t]

Fields are checked against the classes' own annotations, so a message that unpacks has the types a shard relies on. The
shapes and dtypes of tensors are the shard's business: it knows what belongs where.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Literal, get_args, get_origin, get_type_hints

from torch import Tensor

from tightwire.algebra.errors import PayloadError
from tightwire.algebra.schedule import Meta
from tightwire.server import blueprint
from tightwire.server.events import Event, Peek, Reply
from tightwire.server.shard import Shard

KINDS: dict[str, type] = {kind.__name__: kind for kind in (*get_args(Event), *get_args(Reply))}
_DEEPEST = 64  # of nested state


class WireForm:
    """The form of everything that is said to a shard, and of everything it says.

    >>> from tightwire.server.events import Leave
    >>> WireForm().unpack(*WireForm().pack(Leave(3)))
    Leave(worker=3)
    """

    def pack(self, message: Any) -> tuple[Any, list[Tensor]]:
        """Plain data, and the tensors that it names by their place."""
        kind = type(message).__name__
        if KINDS.get(kind) is not type(message):
            raise PayloadError(f"a {kind} is neither an event nor a reply")
        tensors: list[Tensor] = []
        fields = {name: _plain(getattr(message, name), tensors) for name in _FIELDS[kind]}
        return {"kind": kind, "fields": fields}, tensors

    def unpack(self, data: Any, tensors: Sequence[Tensor]) -> Any:
        """The event or reply again; `PayloadError` says what is wrong with data that is none."""
        if not isinstance(data, dict) or set(data) != {"kind", "fields"} or not isinstance(data["fields"], dict):
            raise PayloadError("a message has a kind and fields, and nothing else")
        kind, fields = data["kind"], data["fields"]
        if not isinstance(kind, str) or kind not in KINDS:
            raise PayloadError(f"{kind!r} is neither an event nor a reply; known are {', '.join(KINDS)}")
        expected = _FIELDS[kind]
        if set(fields) != set(expected):
            odd = sorted(set(fields) ^ set(expected))
            raise PayloadError(f"a {kind} has the fields {', '.join(expected)}; {odd[0]!r} is missing or too much")
        left = set(range(len(tensors)))
        values = {}
        for name, check in expected.items():
            value = _value(fields[name], tensors, left)
            if not check(value):
                raise PayloadError(f"{kind}.{name} is a {type(value).__name__} that does not fit")
            values[name] = value
        if left:
            raise PayloadError(f"a {kind} came with tensor {min(left)}, which it does not name")
        return KINDS[kind](**values)

    def describe(self, machine: Any) -> tuple[Any, list[Tensor]]:
        """A shard, as plain data and tensors, for a process that has none."""
        if not isinstance(machine, Shard):
            raise PayloadError(f"a {type(machine).__name__} is no shard, and cannot be told to a server")
        tensors: list[Tensor] = []
        return _plain(blueprint.describe(machine), tensors), tensors

    def build(self, data: Any, tensors: Sequence[Tensor]) -> Shard:
        """The shard again."""
        left = set(range(len(tensors)))
        return blueprint.build(_value(data, tensors, left))

    def reads(self, event: Any) -> bool:
        """Whether an event changes nothing: what a token that may only read may ask."""
        return isinstance(event, Peek)


# ── out ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _plain(value: Any, tensors: list[Tensor]) -> Any:  # noqa: PLR0911 -- one for each kind of data
    """JSON data; what JSON would forget is marked."""
    match value:
        case Tensor():
            tensors.append(value)
            return {"$tensor": len(tensors) - 1}
        case float() if not isfinite(value):
            return {"$float": str(value)}
        case None | bool() | int() | float() | str():
            return value
        case Meta():
            return {"$meta": [value.worker, value.clock, value.version]}
        case frozenset():
            return {"$set": sorted(value)}
        case tuple():
            return {"$tuple": [_plain(child, tensors) for child in value]}
        case list():
            return [_plain(child, tensors) for child in value]
        case Mapping() if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _plain(child, tensors) for key, child in value.items()}
        case Mapping():
            return {"$pairs": [[_plain(key, tensors), _plain(child, tensors)] for key, child in value.items()]}
        case _:
            raise PayloadError(f"a {type(value).__name__} cannot travel; state is made of tensors, numbers and text")


# ── and in again ──────────────────────────────────────────────────────────────────────────────────────────────────


def _value(data: Any, tensors: Sequence[Tensor], left: set[int], depth: int = 0) -> Any:  # noqa: PLR0911
    if depth > _DEEPEST:
        raise PayloadError(f"data nested more than {_DEEPEST} deep")

    def inner(child: Any) -> Any:
        return _value(child, tensors, left, depth + 1)

    match data:
        case {"$tensor": place} if len(data) == 1 and _is_whole(place):
            if place not in left:
                raise PayloadError(f"tensor {place} is named twice, or not among the {len(tensors)} that came")
            left.remove(place)
            return tensors[place]
        case {"$float": "nan" | "inf" | "-inf" as text} if len(data) == 1:
            return float(text)
        case {"$meta": [worker, clock, version]} if len(data) == 1 and all(map(_is_whole, data["$meta"])):
            return Meta(worker, clock, version)
        case {"$set": list(names)} if len(data) == 1 and all(isinstance(name, str) for name in names):
            return frozenset(names)
        case {"$tuple": list(children)} if len(data) == 1:
            return tuple(inner(child) for child in children)
        case {"$pairs": list(pairs)} if len(data) == 1:
            return dict(_pair(pair, inner) for pair in pairs)
        case dict():
            odd = next((key for key in data if key.startswith("$")), None)
            if odd is not None:
                raise PayloadError(f"{odd!r} marks nothing that is known, or something else than it says")
            return {key: inner(child) for key, child in data.items()}
        case list():
            return [inner(child) for child in data]
        case _:
            return data


def _pair(pair: Any, inner: Callable[[Any], Any]) -> tuple[Any, Any]:
    match pair:
        case [key, child]:
            made = inner(key)
            if not _is_key(made):
                raise PayloadError(f"a {type(made).__name__} cannot be a key")
            return made, inner(child)
        case _:
            raise PayloadError("a mapping came with an entry that is not a key and a value")


def _is_key(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_key, value))
    return value is None or isinstance(value, str | int | float)


# ── what a field may be ───────────────────────────────────────────────────────────────────────────────────────────


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check(annotation: Any) -> Callable[[Any], bool]:
    """Whether a value is what a field's annotation says; an annotation that is not known here is our own mistake."""
    if get_origin(annotation) is Literal:
        return lambda value: value in get_args(annotation)
    simple: dict[Any, Callable[[Any], bool]] = {
        int: _is_whole,
        bool: lambda value: isinstance(value, bool),
        Meta: lambda value: isinstance(value, Meta),
        frozenset[str]: lambda value: isinstance(value, frozenset),
        tuple[float, ...]: lambda value: isinstance(value, tuple) and all(isinstance(v, int | float) for v in value),
        dict[str, Any]: lambda value: isinstance(value, dict) and all(isinstance(key, str) for key in value),
        Mapping[str, Tensor]: lambda value: (
            isinstance(value, dict)
            and all(isinstance(key, str) and isinstance(wire, Tensor) for key, wire in value.items())
        ),
    }
    return simple[annotation]


_FIELDS: dict[str, dict[str, Callable[[Any], bool]]] = {
    name: {field: _check(hint) for field, hint in get_type_hints(kind).items()} for name, kind in KINDS.items()
}
