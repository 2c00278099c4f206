"""Everything that is said in a chain, as plain data and tensors. What a worker says or hears goes inside, as ever.

    Forward(2, 7, Request(0, 1, 5, Push(…)))
        ⇄  {"$": "Forward", "of": [2, 7, {"$": "Request", "of": [0, 1, 5, {"$event": …}]}]}

Fields are checked against the classes' own annotations. A shard is told as a blueprint (`server.blueprint`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

from torch import Tensor

from tightwire.algebra.errors import PayloadError
from tightwire.server import chain, once
from tightwire.server.chain import Copied, Member, Seat
from tightwire.server.once import Once, Request, Session
from tightwire.server.wireform import KINDS, WireForm

_WIRE = WireForm()
_OURS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(getattr(once, name) for name in ("Request", "Response", "Unknown", "Session")),
        *(kind for kind in vars(chain).values() if isinstance(kind, type) and kind.__module__ == chain.__name__),
    )
}


class ChainForm:
    """The form of all messages of a chain, and of those that a `WireForm` knows.

    >>> from tightwire.server.chain import Ack
    >>> ChainForm().unpack(*ChainForm().pack(Ack(3, 7)))
    Ack(view=3, place=7)
    """

    def pack(self, message: Any) -> tuple[Any, list[Tensor]]:
        """Plain data, and the tensors that it names by their place."""
        if KINDS.get(type(message).__name__) is type(message):
            return _WIRE.pack(message)
        tensors: list[Tensor] = []
        return _plain(message, tensors), tensors

    def unpack(self, data: Any, tensors: Sequence[Tensor]) -> Any:
        """The message again; `PayloadError` says what is wrong with data that is none."""
        if isinstance(data, dict) and "kind" in data:
            return _WIRE.unpack(data, tensors)
        message = _value(data, list(tensors))
        if isinstance(message, tuple) and type(message).__name__ not in _OURS:
            raise PayloadError("a message between servers has a kind")
        return message

    def copy(self, machine: Once) -> Copied:
        """All that a machine and its sessions know, now."""
        data, tensors = _WIRE.describe(machine.machine)
        return Copied(tuple(sorted(machine.sessions.items())), data, tuple(tensors))

    def revive(self, copied: Copied) -> Once:
        """A machine that knows it."""
        return Once(_WIRE.build(copied.data, copied.tensors), dict(copied.sessions))

    def describe(self, machine: Any) -> tuple[Any, list[Tensor]]:
        """A shard, or a seat in the chain of one, for a process that has none."""
        return self.pack(machine) if isinstance(machine, Seat) else _WIRE.describe(machine)

    def build(self, data: Any, tensors: Sequence[Tensor]) -> Any:
        """The shard or the seat again."""
        if isinstance(data, dict) and data.get("$") == Seat.__name__:
            return self.unpack(data, tensors)
        return _WIRE.build(data, tensors)

    def reads(self, event: Any) -> bool:
        """Whether an event changes nothing: what a token that may only read may ask."""
        return _WIRE.reads(event.event if isinstance(event, Request) else event)


def _plain(value: Any, tensors: list[Tensor]) -> Any:
    kind = type(value).__name__
    if isinstance(value, Copied):
        first = len(tensors)
        tensors.extend(value.tensors)
        return {"$": kind, "of": [_plain(value.sessions, tensors), value.data, first, len(value.tensors)]}
    if _OURS.get(kind) is type(value):
        return {"$": kind, "of": [_plain(field, tensors) for field in value]}
    if KINDS.get(kind) is type(value):
        data, inner = _WIRE.pack(value)
        tensors.extend(inner)
        return {"$event": data, "first": len(tensors) - len(inner), "count": len(inner)}
    if isinstance(value, tuple):
        return [_plain(child, tensors) for child in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise PayloadError(f"a {kind} cannot travel between servers")


def _value(data: Any, tensors: list[Tensor]) -> Any:
    match data:
        case {"$": "Copied", "of": [sessions, plan, int(first), int(count)]} if 0 <= first <= first + count:
            made = Copied(_value(sessions, tensors), plan, tuple(tensors[first : first + count]))
            return _checked("Copied", list(made))
        case {"$": str(kind), "of": list(fields)} if kind in _OURS and kind != "Copied":
            return _checked(kind, [_value(field, tensors) for field in fields])
        case {"$event": inner, "first": int(first), "count": int(count)} if 0 <= first <= first + count:
            return _WIRE.unpack(inner, tensors[first : first + count])
        case list():
            return tuple(_value(child, tensors) for child in data)
        case None | bool() | int() | float() | str():
            return data
    raise PayloadError("data that is no message between servers")


# ── what a field may be ───────────────────────────────────────────────────────────────────────────────────────────


def _checked(kind: str, values: list[Any]) -> Any:
    checks = _CHECKS[kind]
    if len(values) != len(checks):
        raise PayloadError(f"a {kind} has {len(checks)} fields, and {len(values)} came")
    for (name, check), value in zip(checks.items(), values, strict=True):
        if not check(value):
            raise PayloadError(f"{kind}.{name} is a {type(value).__name__} that does not fit")
    return _OURS[kind](*values)


def _all(kind: type) -> Callable[[Any], bool]:
    return lambda value: type(value) is tuple and all(isinstance(child, kind) for child in value)


def _is_places(value: Any) -> bool:
    return type(value) is tuple and all(_all(str)(pair) and len(pair) == 2 for pair in value)


def _is_sessions(value: Any) -> bool:
    return type(value) is tuple and all(
        type(pair) is tuple and len(pair) == 2 and type(pair[0]) is int and isinstance(pair[1], Session)
        for pair in value
    )


_SIMPLE: dict[Any, Callable[[Any], bool]] = {
    int: lambda value: type(value) is int,
    bool: lambda value: type(value) is bool,
    str: lambda value: type(value) is str,
    Any: lambda value: value is None or type(value).__name__ in KINDS or type(value).__name__ in _OURS,
    dict[str, Any]: lambda value: isinstance(value, dict),
    Member: lambda value: isinstance(value, Member),
    Request: lambda value: isinstance(value, Request),
    tuple[int, ...]: _all(int),
    tuple[Any, ...]: lambda value: type(value) is tuple and all(type(child).__name__ in _OURS for child in value),
    tuple[Member, ...]: _all(Member),
    tuple[Request, ...]: _all(Request),
    tuple[Tensor, ...]: _all(Tensor),
    tuple[tuple[int, Session], ...]: _is_sessions,
    tuple[tuple[str, str], ...]: _is_places,
}
_CHECKS: dict[str, dict[str, Callable[[Any], bool]]] = {
    name: {field: _SIMPLE[hint] for field, hint in get_type_hints(kind).items()} for name, kind in _OURS.items()
}
