"""Bytes copied past the cache: for blocks that are larger than it.

An ordinary store first reads the line that it writes to. A store that is not temporal does not, and leaves the cache to
what is needed next: 100 MB are copied in two thirds of the time, or in half of it where the source is still in the
cache. LLVM's mark is a hint, so this is a plain copy on processors without such stores.
"""
# mypy: disable-error-code="untyped-decorator,no-untyped-call,call-arg"

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped,unused-ignore]
from numba.core import types
from numba.extending import intrinsic

_LINE = 64
_BYTES = types.Array(types.uint8, 1, "C")
_READ = types.Array(types.uint8, 1, "C", readonly=True)


@intrinsic
def _stream_line(typing: Any, into: Any, part: Any, to: Any, at: Any) -> Any:
    """``into[to : to + 64] = part[at : at + 64]``; the place must be that of a line."""

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        line = ir.VectorType(ir.IntType(32), _LINE // 4).as_pointer()
        target, source = (context.make_array(signature.args[k])(context, b, args[k]).data for k in range(2))
        read = b.load(b.bitcast(b.gep(source, [args[3]]), line))
        read.align = 1
        written = b.store(read, b.bitcast(b.gep(target, [args[2]]), line))
        written.align = _LINE
        written.set_metadata("nontemporal", b.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
        return context.get_dummy_value()

    return types.void(into, part, types.intp, types.intp), generate


@intrinsic
def _fence(typing: Any) -> Any:
    """Whoever is told that the copy is done sees it."""

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        b.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@numba.njit(types.void(_BYTES, _READ, types.intp), nogil=True, cache=True)
def _stream(into: Any, part: Any, first: Any) -> None:
    last = first + (part.size - first) // _LINE * _LINE
    for at in range(first):
        into[at] = part[at]
    for at in range(first, last, _LINE):
        _stream_line(into, part, at, at)
    for at in range(last, part.size):
        into[at] = part[at]
    _fence()


def stream(into: npt.NDArray[np.uint8], part: npt.NDArray[np.uint8]) -> None:
    """Copy ``part`` into ``into``, which is as long."""
    if into.size != part.size:
        raise ValueError(f"{part.size} bytes do not fill {into.size}")
    _stream(into, part, min(part.size, -into.ctypes.data % _LINE))
