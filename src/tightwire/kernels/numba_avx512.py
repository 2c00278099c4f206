"""One vector times a matrix of 16-bit words (`kernels.words`), with AVX-512.

The permute of two registers (vpermi2ps) is a codebook of 32 entries that looks 16 words up at once. The columns are
taken apart in the integer units meanwhile, four from a load of 64 bits, and x is read number by number: a block of it
stays in the first cache, and single loads are faster than the gather instruction there.
"""
# mypy: disable-error-code="untyped-decorator,no-untyped-call,call-arg,unreachable"

from __future__ import annotations

from typing import Any

import llvmlite.binding  # type: ignore[import-untyped]
import numba
from llvmlite import ir  # type: ignore[import-untyped,unused-ignore]
from numba.core import cgutils, types
from numba.extending import intrinsic

from tightwire.kernels.numba_words import array_at, pointer, spread

LANES, BITS = 16, 5
_F, _I16, _I32, _I64 = ir.FloatType(), ir.IntType(16), ir.IntType(32), ir.IntType(64)
_V = ir.VectorType(_F, LANES)
_VI = ir.VectorType(_I32, LANES)


def present() -> bool:
    """Whether this processor has AVX-512, and Numba was not told to leave it alone."""
    named = numba.config.CPU_FEATURES  # type: ignore[attr-defined]
    if named is not None:
        return "+avx512f" in str(named)
    return bool(llvmlite.binding.get_host_cpu_features().get("avx512f", False))


def _sixteen(b: Any, words: Any, xs: Any, codebook: tuple[Any, Any]) -> tuple[Any, Any]:
    """What 16 words stand for: weights, and the numbers of x that they meet."""
    short = b.load(b.bitcast(words, ir.VectorType(_I16, LANES).as_pointer()))
    short.align = 2
    form = ir.FunctionType(_V, [_V, _VI, _V])
    permute = cgutils.get_or_insert_function(b.module, form, "llvm.x86.avx512.vpermi2var.ps.512")
    weights = b.call(permute, [codebook[0], b.zext(short, _VI), codebook[1]])  # looks at the lowest five bits only
    met = ir.Constant(_V, ir.Undefined)
    for four in range(LANES // 4):
        long = b.load(b.bitcast(b.gep(words, [ir.Constant(_I64, 4 * four)]), _I64.as_pointer()))
        long.align = 2
        for k in range(4):
            column = b.and_(b.lshr(long, ir.Constant(_I64, 16 * k + BITS)), ir.Constant(_I64, (1 << 16 - BITS) - 1))
            met = b.insert_element(met, b.load(b.gep(xs, [column])), ir.Constant(_I32, 4 * four + k))
    return weights, met


def _generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
    """16 words a turn. The last turn sees words of the next row too, and gives them no weight: a row then has one
    branch that is hard to foresee, its end, and a wrong guess costs as much as two turns.
    """
    words, xs, values = (context.make_array(signature.args[k])(context, b, args[k]).data for k in range(3))
    low, high = args[3:]
    halves = []
    for half in range(2):
        entries = b.load(b.bitcast(b.gep(values, [ir.Constant(_I64, LANES * half)]), _V.as_pointer()))
        entries.align = 4
        halves.append(entries)
    fma = cgutils.get_or_insert_function(b.module, ir.FunctionType(_V, [_V] * 3), "llvm.fma.v16f32")
    zero = ir.Constant(_V, [0.0] * LANES)
    into = cgutils.alloca_once_value(b, zero)
    length = b.sub(high, low)
    turns = b.lshr(b.add(length, ir.Constant(_I64, LANES - 1)), ir.Constant(_I64, 4))
    with cgutils.for_range(b, turns, intp=_I64) as loop:
        done = b.shl(loop.index, ir.Constant(_I64, 4))
        weights, met = _sixteen(b, b.gep(words, [b.add(low, done)]), xs, (halves[0], halves[1]))
        left = b.insert_element(
            ir.Constant(_VI, ir.Undefined), b.trunc(b.sub(length, done), _I32), ir.Constant(_I32, 0)
        )
        lefts = b.shuffle_vector(left, left, ir.Constant(_VI, [0] * LANES))
        own = b.icmp_signed("<", ir.Constant(_VI, list(range(LANES))), lefts)
        b.store(b.call(fma, [b.select(own, weights, zero), met, b.load(into)]), into)
    total = cgutils.get_or_insert_function(b.module, ir.FunctionType(_F, [_F, _V]), "llvm.vector.reduce.fadd.v16f32")
    return b.call(total, [ir.Constant(_F, -0.0), b.load(into)], fastmath=("reassoc",))


@intrinsic
def _row(typing: Any, word: Any, x: Any, codebook: Any, low: Any, high: Any) -> Any:
    """``Σ codebook[code] · x[column]`` over ``word[low:high]``; 15 words behind are read too."""
    return types.float32(word, x, codebook, types.intp, types.intp), _generate


@numba.njit(cache=True, nogil=True)
def one_short(out: int, x: int, columns: int, word: Any, begin: Any, codebook: Any, first: int, last: int) -> None:
    """``y[first:last] = W[first:last] · x`` for words without pads; y and x are addresses."""
    y = array_at(pointer(out), last)
    y[first:last] = 0
    spread_x = spread(x, columns, begin.shape[0])
    for block in range(begin.shape[0]):
        xb, low = spread_x[block], begin[block, first]
        for row in range(first, last):
            high = begin[block, row + 1]
            y[row] += _row(word, xb, codebook, low, high)
            low = high
