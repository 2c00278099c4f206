"""Many vectors side by side times a matrix of words (`kernels.words`), compiled by Numba.

    y[row, lane] = Σ over the row's words of codebook[code] · x[start[column] + lane]

A word is a number times a stretch of x. Where the stretches begin is a table: behind each other they are the rows of a
transposed batch, overlapping they are the shifted views of an image, and the same loop is a convolution (after Park et
al.: Faster CNNs with Direct Sparse Convolutions. ICLR 2017).

The inner loop is written in LLVM's own vectors, which become whatever the processor has: an array of sums would travel
to memory and back with every word.
"""
# mypy: disable-error-code="untyped-decorator,no-untyped-call"

from __future__ import annotations

from functools import partial
from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

WIDE, NARROW = 64, 16  # lanes at a time; every stretch is a multiple of the second
CODE_BITS = {16: 5, 32: 16}  # by those of a word, as in kernels.words
_F, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_V = ir.VectorType(_F, NARROW)
_MAY_FUSE = ("contract",)


def _vector(b: Any, pointer: Any, index: Any) -> Any:
    """``pointer[index:index + NARROW]``."""
    value = b.load(b.bitcast(b.gep(pointer, [index]), _V.as_pointer()))
    value.align = 4
    return value


def _loop(b: Any, low: Any, high: Any, step: int, sums: list[Any], turn: Any) -> tuple[Any, list[Any]]:
    """``while low + step <= high: sums = turn(low, sums); low += step``."""
    before = b.block
    head, body, end = (b.append_basic_block(name) for name in ("words", "word", "words.end"))
    b.branch(head)
    b.position_at_end(head)
    i, carried = b.phi(_I64), [b.phi(_V) for _ in sums]
    following = b.add(i, ir.Constant(_I64, step))
    b.cbranch(b.icmp_signed("<=", following, high), body, end)
    b.position_at_end(body)
    new = turn(i, carried)
    b.branch(head)
    for phi, first, later in zip([i, *carried], [low, *sums], [following, *new], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(later, body)
    b.position_at_end(end)
    return i, carried


def _add_word(b: Any, i: Any, sums: list[Any], *, pointers: list[Any], bits: int, lane: Any) -> list[Any]:
    """``sums + codebook[code] · x[start[column] + lane:…]`` for word i, whose lowest ``bits`` are the code."""
    words, starts, xs, values = pointers
    word = b.zext(b.load(b.gep(words, [i])), _I64)
    weight = b.load(b.gep(values, [b.and_(word, ir.Constant(_I64, (1 << bits) - 1))]))
    base = b.add(b.load(b.gep(starts, [b.lshr(word, ir.Constant(_I64, bits))])), lane)
    first = b.insert_element(ir.Constant(_V, ir.Undefined), weight, ir.Constant(_I32, 0))
    same = b.shuffle_vector(first, first, ir.Constant(ir.VectorType(_I32, NARROW), [0] * NARROW))
    met = [_vector(b, xs, b.add(base, ir.Constant(_I64, NARROW * k))) for k in range(len(sums))]
    return [b.fadd(sum_, b.fmul(same, x, flags=_MAY_FUSE), flags=_MAY_FUSE) for sum_, x in zip(sums, met, strict=True)]


def _row(lanes: int, abreast: int) -> Any:
    """One row, some lanes: ``y[at:at + lanes] += Σ codebook[code] · x[start[column] + lane:…]``.

    So many words go ``abreast``, each with sums of its own: a sum waits four cycles for the one before.
    """
    parts = [ir.Constant(_I64, NARROW * k) for k in range(lanes // NARROW)]

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        *pointers, ys = [context.make_array(signature.args[k])(context, b, args[k]).data for k in range(5)]
        low, high, lane, at = args[5:]
        out, bits = b.gep(ys, [at]), CODE_BITS[signature.args[0].dtype.bitwidth]
        one = partial(_add_word, b, pointers=pointers, bits=bits, lane=lane)

        def several(i: Any, sums: list[Any]) -> list[Any]:
            each = [sums[k::abreast] for k in range(abreast)]
            new = [one(b.add(i, ir.Constant(_I64, k)), own) for k, own in enumerate(each)]
            return [new[k][part] for part in range(len(parts)) for k in range(abreast)]

        zero = ir.Constant(_V, [0.0] * NARROW)
        sums = [_vector(b, out, part) if k == 0 else zero for part in parts for k in range(abreast)]
        low, sums = _loop(b, low, high, abreast, sums, several)
        totals = [sums[n * abreast] for n in range(len(parts))]
        for n in range(len(parts)):
            for k in range(1, abreast):
                totals[n] = b.fadd(totals[n], sums[n * abreast + k])
        if abreast > 1:
            _, totals = _loop(b, low, high, 1, totals, one)
        for total, part in zip(totals, parts, strict=True):
            b.store(total, b.bitcast(b.gep(out, [part]), _V.as_pointer())).align = 4
        return context.get_dummy_value()

    @intrinsic
    def row(typing: Any, word: Any, start: Any, x: Any, codebook: Any, y: Any, low: Any, high: Any, lane: Any, at: Any) -> Any:  # fmt: skip  # noqa: PLR0913, PLR0917, E501
        return types.void(word, start, x, codebook, y, *[types.intp] * 4), generate

    return row


# Numba never finds in its cache what captures them: an intrinsic has another name in each process
_wide, _narrow = _row(WIDE, 1), _row(NARROW, 4)


@numba.njit(cache=True, nogil=True)
def many(y: Any, x: Any, word: Any, begin: Any, end: Any, codebook: Any, start: Any, lanes: int, first: int, last: int) -> None:  # fmt: skip  # noqa: PLR0913, PLR0917, E501
    """``y[first:last] = W[first:last] · x`` over stretches of ``lanes``, a multiple of `NARROW`."""
    y[first * lanes : last * lanes] = 0
    whole = lanes // WIDE * WIDE
    for lane in range(0, whole, WIDE):
        for block in range(begin.shape[0]):
            for r in range(first, last):
                _wide(word, start[block], x, codebook, y, begin[block, r], end[block, r], lane, r * lanes + lane)
    for lane in range(whole, lanes, NARROW):
        for block in range(begin.shape[0]):
            for r in range(first, last):
                _narrow(word, start[block], x, codebook, y, begin[block, r], end[block, r], lane, r * lanes + lane)
