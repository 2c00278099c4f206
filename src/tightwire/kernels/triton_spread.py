"""A vector times a matrix of codes, looked up in shared memory: a table of 256 words, 32 times, so that every lane of a
warp reads a copy in a bank of its own and no two lanes wait for each other.

    shared memory    word e of the table at 128·e + 4·lane, for every lane
    4-bit codes      a byte is two codes: one load gives two weights in half precision
    8-bit codes      a byte is one code: one load gives one weight in single precision

Two integer instructions, a load and a product take two 4-bit weights. A program keeps its part of x in registers and
walks down the rows; the next rows are on their way meanwhile. The layout of words is `kernels.codebook`'s.
"""
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _fill(table):
    """Write the copies, each warp 32 words at a time; the address where they begin, the same for all threads."""
    return tl.inline_asm_elementwise(
        asm="""
        {
            .shared .align 128 .b8 spread[32768];
            .reg .u32 begin, at, lane, group, groups, k, place, v, w;
            .reg .u64 from;
            .reg .pred more;
            mov.u32 begin, spread;
            mov.u32 lane, %tid.x;
            shr.u32 group, lane, 5;
            and.b32 lane, lane, 31;
            mov.u32 groups, %ntid.x;
            shr.u32 groups, groups, 5;
            next_group:
            shl.b32 at, group, 5;
            add.u32 place, at, lane;
            mul.wide.u32 from, place, 4;
            add.u64 from, from, $1;
            ld.global.nc.u32 v, [from];
            shl.b32 at, at, 7;
            shl.b32 place, lane, 2;
            add.u32 at, at, place;
            add.u32 at, at, begin;
            mov.u32 k, 0;
            next_word:
            shfl.sync.idx.b32 w, v, k, 31, 0xffffffff;
            st.shared.u32 [at], w;
            add.u32 place, k, 1;
            shfl.sync.idx.b32 w, v, place, 31, 0xffffffff;
            st.shared.u32 [at + 128], w;
            add.u32 place, k, 2;
            shfl.sync.idx.b32 w, v, place, 31, 0xffffffff;
            st.shared.u32 [at + 256], w;
            add.u32 place, k, 3;
            shfl.sync.idx.b32 w, v, place, 31, 0xffffffff;
            st.shared.u32 [at + 384], w;
            add.u32 at, at, 512;
            add.u32 k, k, 4;
            setp.lt.u32 more, k, 32;
            @more bra next_word;
            add.u32 group, group, groups;
            setp.lt.u32 more, group, 8;
            @more bra next_group;
            bar.sync 0;
            mov.u32 $0, begin;
        }
        """,
        constraints="=r,l",
        args=[table.to(tl.int64)],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def _eight(word, x0, x1, x2, x3, begin):
    """The sum of a word's products with eight codes of 4 bits: four in half precision each, those two in single."""
    return tl.inline_asm_elementwise(
        asm="""
        {
            .reg .b32 lane, s, v, p;
            .reg .b16 e, f;
            .reg .f32 g, k;
            mov.u32 lane, %tid.x;
            shl.b32 lane, lane, 2;
            and.b32 lane, lane, 124;
            shl.b32 s, $1, 7;
            lop3.b32 s, s, 0x7f80, lane, 0xEA;
            add.u32 s, s, $6;
            ld.shared.u32 v, [s];
            mul.rn.f16x2 p, v, $2;
            shr.u32 s, $1, 1;
            lop3.b32 s, s, 0x7f80, lane, 0xEA;
            add.u32 s, s, $6;
            ld.shared.u32 v, [s];
            fma.rn.f16x2 p, v, $3, p;
            shr.u32 s, $1, 9;
            lop3.b32 s, s, 0x7f80, lane, 0xEA;
            add.u32 s, s, $6;
            ld.shared.u32 v, [s];
            fma.rn.f16x2 p, v, $4, p;
            shr.u32 s, $1, 17;
            lop3.b32 s, s, 0x7f80, lane, 0xEA;
            add.u32 s, s, $6;
            ld.shared.u32 v, [s];
            fma.rn.f16x2 p, v, $5, p;
            mov.b32 {e, f}, p;
            cvt.f32.f16 g, e;
            cvt.f32.f16 k, f;
            add.f32 $0, g, k;
        }
        """,
        constraints="=f,r,r,r,r,r,r",
        args=[word, x0, x1, x2, x3, begin],
        dtype=tl.float32,
        is_pure=True,
        pack=1,
    )


@triton.jit
def four_bits(
    words, x, table, out, rows, stride, pairs,
    BLOCK_R: tl.constexpr, BLOCK_W: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """STEPS times BLOCK_R rows, over BLOCK_W words of each: ``out[share, row]``. x in half precision, two to a word."""
    begin = tl.program_id(1) * BLOCK_W
    j = begin + tl.arange(0, BLOCK_W)
    # Where a word's first pair of columns stands: see the drawing in kernels.codebook.
    pair = (j // 4 * 16 + j % 4)[None, :]
    row = tl.program_id(0) * (BLOCK_R * STEPS) + tl.arange(0, BLOCK_R)
    there = words + row[:, None].to(tl.int64) * stride + j[None, :]
    word = tl.load(there, mask=(row < rows)[:, None], other=0)
    x0 = tl.load(x + pair, mask=pair < pairs, other=0)
    x1 = tl.load(x + pair + 4, mask=pair + 4 < pairs, other=0)
    x2 = tl.load(x + pair + 8, mask=pair + 8 < pairs, other=0)
    x3 = tl.load(x + pair + 12, mask=pair + 12 < pairs, other=0)
    spread = _fill(table)
    for step in range(STEPS):
        below = row + BLOCK_R
        there += BLOCK_R * stride
        coming = tl.load(there, mask=(below < rows)[:, None] & (step + 1 < STEPS), other=0)
        total = _eight(word, x0, x1, x2, x3, spread)
        tl.store(out + tl.program_id(1) * rows + row, tl.sum(total, axis=1), mask=row < rows)
        word = coming
        row = below
