"""Products in single precision with codes of 4 or 8 bits and a codebook, on a GPU, compiled by Triton.

Ways to look a code up, of which `vector` takes one:

    LOAD      a load from the table, which stays in the first cache
    SHUFFLE   lane l of a warp holds entry l; a shuffle fetches the one that is wanted: two instructions a weight

`batch` decodes tiles, `sparse` walks lists of columns and codes. Half precision has a faster way: `triton_tiles`. The
layout of words is `kernels.codebook_layout`'s.
"""
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917

from __future__ import annotations

import triton
import triton.language as tl

LOAD = tl.constexpr("load")


@triton.jit
def _two(x, pair, pairs):
    """Two neighbouring numbers of x; zeros behind its end."""
    inside = pair < pairs
    return tl.load(x + 2 * pair, mask=inside, other=0.0), tl.load(x + 2 * pair + 1, mask=inside, other=0.0)


@triton.jit
def _place(words, row, word, stride):
    """Where words of rows stand in their tiles; 16 words further along a row are 256 further in memory."""
    tile = (row // 16).to(tl.int64) * (stride // 16) + word // 16
    return words + tile * 256 + row % 16 * 16 + word % 16


@triton.jit
def _shuffle_eight(word, table):
    """The eight weights of a word of 4-bit codes. A shuffle looks at five bits: each half of a warp holds the table."""
    return tl.inline_asm_elementwise(
        asm="""
        {
            .reg .u32 lane, s;
            .reg .u64 at;
            .reg .f32 t;
            mov.u32 lane, %laneid;
            and.b32 lane, lane, 15;
            mul.wide.u32 at, lane, 4;
            add.u64 at, at, $9;
            ld.global.nc.f32 t, [at];
            shfl.sync.idx.b32 $0, t, $8, 31, 0xffffffff;
            shr.u32 s, $8, 4;
            shfl.sync.idx.b32 $1, t, s, 31, 0xffffffff;
            shr.u32 s, $8, 8;
            shfl.sync.idx.b32 $2, t, s, 31, 0xffffffff;
            shr.u32 s, $8, 12;
            shfl.sync.idx.b32 $3, t, s, 31, 0xffffffff;
            shr.u32 s, $8, 16;
            shfl.sync.idx.b32 $4, t, s, 31, 0xffffffff;
            shr.u32 s, $8, 20;
            shfl.sync.idx.b32 $5, t, s, 31, 0xffffffff;
            shr.u32 s, $8, 24;
            shfl.sync.idx.b32 $6, t, s, 31, 0xffffffff;
            shr.u32 s, $8, 28;
            shfl.sync.idx.b32 $7, t, s, 31, 0xffffffff;
        }
        """,
        constraints="=&f,=&f,=&f,=&f,=&f,=&f,=&f,=&f,r,l",
        args=[word, table.to(tl.int64)],
        dtype=(
            tl.float32, tl.float32, tl.float32, tl.float32, tl.float32, tl.float32, tl.float32, tl.float32,
        ),
        is_pure=True,
        pack=1,
    )  # fmt: skip


@triton.jit
def _shuffle_four(word, table):
    """The four weights of a word of bytes below 32."""
    return tl.inline_asm_elementwise(
        asm="""
        {
            .reg .u32 lane, s;
            .reg .u64 at;
            .reg .f32 t;
            mov.u32 lane, %laneid;
            mul.wide.u32 at, lane, 4;
            add.u64 at, at, $5;
            ld.global.nc.f32 t, [at];
            shfl.sync.idx.b32 $0, t, $4, 31, 0xffffffff;
            shr.u32 s, $4, 8;
            shfl.sync.idx.b32 $1, t, s, 31, 0xffffffff;
            shr.u32 s, $4, 16;
            shfl.sync.idx.b32 $2, t, s, 31, 0xffffffff;
            shr.u32 s, $4, 24;
            shfl.sync.idx.b32 $3, t, s, 31, 0xffffffff;
        }
        """,
        constraints="=&f,=&f,=&f,=&f,r,l",
        args=[word, table.to(tl.int64)],
        dtype=(tl.float32, tl.float32, tl.float32, tl.float32),
        is_pure=True,
        pack=1,
    )


@triton.jit
def _products(word, x, pair, pairs, table, BITS: tl.constexpr, WAY: tl.constexpr):
    """The sum of each word's products."""
    if WAY == LOAD:
        total = tl.zeros_like(word).to(tl.float32)
        for i in tl.static_range(16 // BITS):
            low, high = _two(x, pair + 4 * i, pairs)
            first = (word >> (2 * BITS * i)) & ((1 << BITS) - 1)
            second = (word >> (2 * BITS * i + BITS)) & ((1 << BITS) - 1)
            total += tl.load(table + first) * low + tl.load(table + second) * high
    elif BITS == 4:
        w0, w1, w2, w3, w4, w5, w6, w7 = _shuffle_eight(word, table)
        x0, x1 = _two(x, pair, pairs)
        x2, x3 = _two(x, pair + 4, pairs)
        x4, x5 = _two(x, pair + 8, pairs)
        x6, x7 = _two(x, pair + 12, pairs)
        total = w0 * x0 + w1 * x1 + w2 * x2 + w3 * x3 + w4 * x4 + w5 * x5 + w6 * x6 + w7 * x7
    else:
        w0, w1, w2, w3 = _shuffle_four(word, table)
        x0, x1 = _two(x, pair, pairs)
        x2, x3 = _two(x, pair + 4, pairs)
        total = w0 * x0 + w1 * x1 + w2 * x2 + w3 * x3
    return total


@triton.jit
def vector(
    words, x, table, out, rows, stride, share, pairs,
    BITS: tl.constexpr, WAY: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_W: tl.constexpr,
):  # fmt: skip
    """Some rows, over one share of the columns: ``out[share, row]``."""
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    begin = tl.program_id(1) * share
    j = tl.arange(0, BLOCK_W)
    inside = (row < rows)[:, None]
    there = _place(words, row[:, None], (begin + j)[None, :], stride)
    # Where a word's first pair of columns stands: see the drawing in kernels.codebook_layout.
    pair = ((begin + j) // 4 * (64 // BITS) + (begin + j) % 4)[None, :]
    total = tl.zeros([BLOCK_R, BLOCK_W], tl.float32)
    word = tl.load(there, mask=inside, other=0)
    for i in range(0, share, BLOCK_W):
        # The next words are on their way while these are multiplied.
        coming = tl.load(there + 16 * (i + BLOCK_W), mask=inside & (i + BLOCK_W < share), other=0)
        total += _products(word, x, pair + i * (16 // BITS), pairs, table, BITS, WAY)
        word = coming
    tl.store(out + tl.program_id(1) * rows + row, tl.sum(total, axis=1), mask=row < rows)


@triton.jit
def batch(
    words, x, table, out, rows, columns, many, stride,
    BITS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_W: tl.constexpr, BLOCK_B: tl.constexpr,
):  # fmt: skip
    """Some rows times up to BLOCK_B vectors."""
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    j = tl.arange(0, BLOCK_W)
    b = tl.arange(0, BLOCK_B)
    there = _place(words, row[:, None], j[None, :], stride)
    total = tl.zeros([BLOCK_R, BLOCK_B], tl.float32)
    for i in range(0, stride, BLOCK_W):
        word = tl.load(there + 16 * i, mask=(row < rows)[:, None], other=0)
        pair = (i + j) // 4 * (64 // BITS) + (i + j) % 4
        for k in tl.static_range(32 // BITS):
            weight = tl.load(table + ((word >> (BITS * k)) & ((1 << BITS) - 1)))
            column = 2 * (pair + 4 * (k // 2)) + k % 2
            known = (column < columns)[:, None] & (b < many)[None, :]
            value = tl.load(x + column[:, None] + b[None, :] * columns, mask=known, other=0.0)
            total = tl.dot(weight, value, total, input_precision="ieee")
    inside = (row < rows)[:, None] & (b < many)[None, :]
    tl.store(out + b[None, :] * rows + row[:, None], total, mask=inside)


@triton.jit
def sparse(words, begin, x, table, out, rows, columns, BLOCK: tl.constexpr):
    """One row times one vector, from words of a column (24 bits) and a code (8 bits)."""
    row, b = tl.program_id(0), tl.program_id(1)
    low, high = tl.load(begin + row), tl.load(begin + row + 1)
    j = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for i in range(low, high, BLOCK):
        inside = i + j < high
        word = tl.load(words + i + j, mask=inside, other=0)
        weight = tl.load(table + (word & 255), mask=inside, other=0.0)
        value = tl.load(x + b * columns + (word >> 8), mask=inside, other=0.0).to(tl.float32)
        total += weight * value
    tl.store(out + b * rows + row, tl.sum(total, axis=0))
