"""Reads the pickles of CIFAR-10's python version without unpickling anything.

A pickle is a program for a stack machine; unpickling runs it, with every function it names. Here `pickletools` only
takes the program apart, and the few instructions that build dicts, lists, strings and numbers are carried out on plain
values. Numpy's array is recognised by the names numpy gives it and becomes an `Array`: shape and bytes, no numpy call.
Any other name or instruction is refused.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

_ARRAY, _NDARRAY, _DTYPE, _ENCODE = "array", "ndarray", "dtype", "encode"
_NAMES = {
    "numpy.core.multiarray _reconstruct": _ARRAY,
    "numpy._core.multiarray _reconstruct": _ARRAY,
    "numpy ndarray": _NDARRAY,
    "numpy dtype": _DTYPE,
    "_codecs encode": _ENCODE,  # how Python 3 writes bytes in protocol 2
}


class PickleError(ValueError):
    """Not a pickle of dicts, lists, strings, numbers and byte arrays."""


@dataclass(frozen=True)
class _Name:
    means: str


@dataclass
class Array:
    """A numpy matrix of bytes, by rows or by columns; ``shape`` is () until its state was read."""

    shape: tuple[int, ...] = ()
    body: bytes = b""
    order: Literal["C", "F"] = "C"


@dataclass
class _Dtype:
    code: str


@dataclass
class _Machine:
    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise PickleError("it takes a value where there is none")
        return self.stack.pop()

    def pop_marked(self) -> list[Any]:
        if not self.marks:
            raise PickleError("it closes what it never opened")
        begin = self.marks.pop()
        values, self.stack[begin:] = self.stack[begin:], []
        return values

    def top(self, kind: type) -> Any:
        value = self.pop()
        if not isinstance(value, kind):
            raise PickleError(f"a {type(value).__name__} where a {kind.__name__} belongs")
        self.push(value)
        return value


def load(program: bytes) -> object:
    """The value in a pickle."""
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(program):
            if opcode.name == "STOP":
                return machine.pop()
            if opcode.name not in _STEPS:
                raise PickleError(f"it holds an instruction {opcode.name}, which these files do not need")
            _STEPS[opcode.name](machine, argument)
    except PickleError:
        raise
    except (ValueError, OverflowError, Warning) as error:  # an odd escape is a warning, and that may be an error
        raise PickleError("it is damaged") from error
    raise PickleError("it does not end")


def _tuple(machine: _Machine, length: int) -> None:
    machine.push(tuple(machine.pop() for _ in range(length))[::-1])


def _note(machine: _Machine, argument: int | None) -> None:
    machine.memo[len(machine.memo) if argument is None else argument] = machine.top(object)


def _recall(machine: _Machine, argument: int) -> None:
    if argument not in machine.memo:
        raise PickleError(f"it remembers value {argument}, which it never noted")
    machine.push(machine.memo[argument])


def _append(machine: _Machine, values: list[Any]) -> None:
    machine.top(list).extend(values)


def _set(machine: _Machine, flat: list[Any]) -> None:
    into = machine.top(dict)
    for key, value in zip(flat[::2], flat[1::2], strict=True):
        text = key.decode("latin-1") if isinstance(key, bytes) else key
        if not isinstance(text, str):
            raise PickleError(f"a key is a {type(key).__name__}, not text")
        into[text] = value


def _name(machine: _Machine, name: object) -> None:
    if name not in _NAMES:
        raise PickleError(f"it calls {str(name).replace(' ', '.')[:80]!r}, which these files do not need")
    machine.push(_Name(_NAMES[str(name)]))


def _name_on_stack(machine: _Machine) -> None:
    second, first = machine.pop(), machine.pop()
    if not isinstance(first, str) or not isinstance(second, str):
        raise PickleError("it calls something without a name")
    _name(machine, f"{first} {second}")


def _call(machine: _Machine) -> None:
    arguments, called = machine.pop(), machine.pop()
    match called, arguments:
        case _Name(means="array"), (_Name(means="ndarray"), *_):
            machine.push(Array())
        case _Name(means="dtype"), (str(code), *_):
            machine.push(_Dtype(code))
        case _Name(means="encode"), (str(text), "latin1" | "latin-1"):
            machine.push(text.encode("latin-1"))
        case _:
            raise PickleError(f"it calls a {type(called).__name__} in a way these files do not need")


def _build(machine: _Machine) -> None:
    state = machine.pop()
    match value := machine.top(object), state:
        case _Dtype(), (int(), *_):
            return
        case Array(), (int(), tuple(shape), _Dtype(code="u1"), bool(by_columns), str() | bytes() as body):
            if len(shape) != 2 or not all(isinstance(side, int) for side in shape) or prod(shape) != len(body):
                raise PickleError(f"the shape of an array does not fit its {len(body):,} bytes")
            value.shape, value.order = tuple(shape), "F" if by_columns else "C"
            value.body = body.encode("latin-1") if isinstance(body, str) else body
        case _:
            raise PickleError(f"it gives a {type(value).__name__} a state these files do not need")


_VALUES = (
    "BININT", "BININT1", "BININT2", "INT", "LONG1", "BINSTRING", "SHORT_BINSTRING", "BINUNICODE",
    "SHORT_BINUNICODE", "BINBYTES", "SHORT_BINBYTES",
)  # fmt: skip
_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(_VALUES, _Machine.push),
    **dict.fromkeys(("PROTO", "FRAME"), lambda machine, argument: None),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "TUPLE1": lambda machine, _: _tuple(machine, 1),
    "TUPLE2": lambda machine, _: _tuple(machine, 2),
    "TUPLE3": lambda machine, _: _tuple(machine, 3),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.pop_marked())),
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT", "MEMOIZE"), _note),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _recall),
    "APPEND": lambda machine, _: _append(machine, [machine.pop()]),
    "APPENDS": lambda machine, _: _append(machine, machine.pop_marked()),
    "SETITEM": lambda machine, _: _set(machine, [machine.pop(), machine.pop()][::-1]),
    "SETITEMS": lambda machine, _: _set(machine, machine.pop_marked()),
    "GLOBAL": _name,
    "STACK_GLOBAL": lambda machine, _: _name_on_stack(machine),
    "REDUCE": lambda machine, _: _call(machine),
    "BUILD": lambda machine, _: _build(machine),
}
