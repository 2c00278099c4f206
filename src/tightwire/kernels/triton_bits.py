"""One-bit, ternary and QSGD codes of a whole bucket in one pass, compiled by Triton: `codecs.passes` on a GPU.

A program takes BLOCK elements in a row, whatever tensors they are of: it walks the few that lie in its block (``first``
to ``last``) and learns each element's row or scale from where that tensor begins and ends. Bytes are made by adding
shifted bits along a group of 8 (or 4) neighbours. The arithmetic is that of `codecs.onebit`, `codecs.terngrad`,
`codecs.qsgd` and `codecs.dice`: one multiplication, one addition, never fused, and division as on a CPU.
"""
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _places(numel, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    return i, i < numel


@triton.jit
def _rows(i, first, last, begin, end, base, width, BLOCK: tl.constexpr):
    """The row (or bucket) of each element, ``width`` elements of its tensor, counted through all tensors."""
    row = tl.zeros((BLOCK,), tl.int32)
    for s in range(tl.load(first + tl.program_id(0)), tl.load(last + tl.program_id(0)) + 1):
        low = tl.load(begin + s)
        mine = (i >= low) & (i < tl.load(end + s))
        row = tl.where(mine, tl.load(base + s) + (i - low) // tl.load(width + s), row)
    return row


@triton.jit
def _scales(i, scale, first, last, begin, end, BLOCK: tl.constexpr):
    """The scale of each element's tensor."""
    found = tl.zeros((BLOCK,), tl.float32)
    for s in range(tl.load(first + tl.program_id(0)), tl.load(last + tl.program_id(0)) + 1):
        mine = (i >= tl.load(begin + s)) & (i < tl.load(end + s))
        found = tl.where(mine, tl.load(scale + s), found)
    return found


@triton.jit
def pack_signs(x, mean, rebuilt, bits, first, last, begin, end, base, width, numel, BLOCK: tl.constexpr):
    """Bits of x ≥ 0, and the mean of the row on that side."""
    i, inside = _places(numel, BLOCK)
    positive = (tl.load(x + i, mask=inside, other=-1.0) >= 0).to(tl.int32)
    row = _rows(i, first, last, begin, end, base, width, BLOCK)
    tl.store(rebuilt + i, tl.load(mean + 2 * row + positive, mask=inside, other=0.0), mask=inside)
    byte = tl.sum(tl.reshape(positive, (BLOCK // 8, 8)) << tl.arange(0, 8)[None, :], axis=1)
    at = tl.program_id(0) * (BLOCK // 8) + tl.arange(0, BLOCK // 8)
    tl.store(bits + at, byte.to(tl.uint8), mask=at * 8 < numel)


@triton.jit
def add_signs(out, mean, bits, first, last, begin, end, base, width, numel, BLOCK: tl.constexpr):
    """Add the mean of the row on the side that each bit says."""
    i, inside = _places(numel, BLOCK)
    positive = (tl.load(bits + i // 8, mask=inside, other=0).to(tl.int32) >> (i % 8)) & 1
    row = _rows(i, first, last, begin, end, base, width, BLOCK)
    value = tl.load(mean + 2 * row + positive, mask=inside, other=0.0)
    tl.store(out + i, tl.load(out + i, mask=inside, other=0.0) + value, mask=inside)


@triton.jit
def _mixed(word):
    """`codecs.dice`: 32 bits one to one."""
    word = (word ^ (word >> 16)) * 0x7FEB352D
    word = (word ^ (word >> 15)) * 0x846CA68B
    return word ^ (word >> 16)


@triton.jit
def _uniform(i, start, gamma, first, last, begin, end, BLOCK: tl.constexpr):
    """`codecs.dice`: what each element draws in [0, 1)."""
    word = tl.zeros((BLOCK,), tl.uint32)
    for s in range(tl.load(first + tl.program_id(0)), tl.load(last + tl.program_id(0)) + 1):
        low = tl.load(begin + s)
        mine = (i >= low) & (i < tl.load(end + s))
        counted = tl.load(start + s) + (i - low) * tl.load(gamma + s)
        word = tl.where(mine, counted.to(tl.uint32, bitcast=True), word)
    return (_mixed(word) >> 8).to(tl.float32) * (1.0 / 16777216.0)


@triton.jit
def pack_ternary(
    value, scale, start, gamma, rebuilt, codes, first, last, begin, end, numel, BLOCK: tl.constexpr
):  # fmt: skip
    """Draw a code for every value: 1 is scale, 2 is −scale, 0 nothing."""
    i, inside = _places(numel, BLOCK)
    size_of = _scales(i, scale, first, last, begin, end, BLOCK)
    given = tl.load(value + i, mask=inside, other=0.0)
    drawn = _uniform(i, start, gamma, first, last, begin, end, BLOCK) * size_of < tl.abs(given)
    code = tl.where(drawn & inside, tl.where(given < 0, 2, 1), 0)
    carried = tl.where(code == 1, size_of, tl.where(code == 2, -size_of, 0.0))
    tl.store(rebuilt + i, carried, mask=inside)
    byte = tl.sum(tl.reshape(code, (BLOCK // 4, 4)) << (2 * tl.arange(0, 4))[None, :], axis=1)
    at = tl.program_id(0) * (BLOCK // 4) + tl.arange(0, BLOCK // 4)
    tl.store(codes + at, byte.to(tl.uint8), mask=at * 4 < numel)


@triton.jit
def add_ternary(out, scale, codes, first, last, begin, end, numel, BLOCK: tl.constexpr):
    """Add scale, −scale or nothing, as each code says."""
    i, inside = _places(numel, BLOCK)
    size_of = _scales(i, scale, first, last, begin, end, BLOCK)
    code = (tl.load(codes + i // 4, mask=inside, other=0).to(tl.int32) >> (2 * (i % 4))) & 3
    carried = tl.where(code == 1, size_of, tl.where(code == 2, -size_of, 0.0))
    tl.store(out + i, tl.load(out + i, mask=inside, other=0.0) + carried, mask=inside)


@triton.jit
def draw_levels(
    x, norm, value, start, gamma, codes, rebuilt, first, last, begin, end, base, width, levels, sign, numel,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Draw a level of its bucket's norm for every element, and the sign above it."""
    i, inside = _places(numel, BLOCK)
    bucket = _rows(i, first, last, begin, end, base, width, BLOCK)
    given = tl.load(x + i, mask=inside, other=0.0)
    size = tl.load(norm + bucket, mask=inside, other=0.0)
    some = size > 0
    place = tl.where(some, levels * tl.div_rn(tl.abs(given), tl.where(some, size, 1.0)), 0.0)
    place = tl.minimum(place, levels)
    floor = tl.floor(place)
    drawn = _uniform(i, start, gamma, first, last, begin, end, BLOCK) < place - floor
    level = floor.to(tl.int32) + drawn.to(tl.int32)
    carried = tl.load(value + level, mask=inside, other=0.0)
    tl.store(rebuilt + i, tl.where(given < 0, -carried, carried) * size, mask=inside)
    tl.store(codes + i, tl.where(given < 0, level | sign, level).to(tl.uint8), mask=inside)


@triton.jit
def add_levels(
    out, codes, norm, value, first, last, begin, end, base, width, top, sign, numel, BLOCK: tl.constexpr
):  # fmt: skip
    """Add what each code stands for; a level above ``top``, which is refused later, counts as that."""
    i, inside = _places(numel, BLOCK)
    bucket = _rows(i, first, last, begin, end, base, width, BLOCK)
    code = tl.load(codes + i, mask=inside, other=0).to(tl.int32)
    carried = tl.load(value + tl.minimum(code & (sign - 1), top), mask=inside, other=0.0)
    carried = tl.where(code >= sign, -carried, carried) * tl.load(norm + bucket, mask=inside, other=0.0)
    tl.store(out + i, tl.load(out + i, mask=inside, other=0.0) + carried, mask=inside)
