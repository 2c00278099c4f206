"""Up to eight vectors at a time against a matrix of codes: looked up in shared memory, multiplied on the tensor cores.

    shared memory    a table of 256 words, 32 times: word e of lane l at 128·e + 4·l. Every lane of a warp reads its own
                     bank, so no two lanes wait for each other
    4-bit codes      a byte is two codes: one load gives two weights in half precision
    8-bit codes      a byte is one code: one load gives one weight, in both halves of a word; two are put together

What a lane has looked up is what it has to hold of a 16 × 16 matrix for `mma.m16n8k16` (PTX ISA 9.7.14): its words of
rows g and g + 8, where lane = 4·g + t, and of the columns that its part t of x stands at. The product of a vector takes
as long as that of eight: in both cases the words are read once. Sums are in single precision.

    a turn of a warp is a tile, t = 0 … 3           row g       │ 4 words of t = 0 │ of t = 1 │ of t = 2 │ of t = 3 │
                                                    row g + 8   │                  │          │          │          │

Warps take turns along a band of tiles, and their sums are added at the end. The layout is `kernels.codebook_layout`'s.
"""
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917

from __future__ import annotations

import triton
import triton.language as tl

HALF, BRAIN = tl.constexpr("f16"), tl.constexpr("bf16")

_LOOK_UP_PAIRS = """
    prmt.b32 s, $8, 0, 0x4440;  mad.lo.u32 s, s, 128, $14;  ld.shared.b32 a0, [s];
    prmt.b32 s, $9, 0, 0x4440;  mad.lo.u32 s, s, 128, $14;  ld.shared.b32 a1, [s];
    prmt.b32 s, $8, 0, 0x4441;  mad.lo.u32 s, s, 128, $14;  ld.shared.b32 a2, [s];
    prmt.b32 s, $9, 0, 0x4441;  mad.lo.u32 s, s, 128, $14;  ld.shared.b32 a3, [s];
    prmt.b32 s, $8, 0, 0x4442;  mad.lo.u32 s, s, 128, $14;  ld.shared.b32 e0, [s];
    prmt.b32 s, $9, 0, 0x4442;  mad.lo.u32 s, s, 128, $14;  ld.shared.b32 e1, [s];
    prmt.b32 s, $8, 0, 0x4443;  mad.lo.u32 s, s, 128, $14;  ld.shared.b32 e2, [s];
    prmt.b32 s, $9, 0, 0x4443;  mad.lo.u32 s, s, 128, $14;  ld.shared.b32 e3, [s];
"""
_LOOK_UP_SINGLES = """
    prmt.b32 s, $8, 0, 0x4440;  mad.lo.u32 s, s, 128, $12;  ld.shared.b32 a0, [s];
    prmt.b32 s, $8, 0, 0x4441;  mad.lo.u32 s, s, 128, $12;  ld.shared.b32 e0, [s];
    prmt.b32 s, $9, 0, 0x4440;  mad.lo.u32 s, s, 128, $12;  ld.shared.b32 a1, [s];
    prmt.b32 s, $9, 0, 0x4441;  mad.lo.u32 s, s, 128, $12;  ld.shared.b32 e1, [s];
    prmt.b32 s, $8, 0, 0x4442;  mad.lo.u32 s, s, 128, $12;  ld.shared.b32 a2, [s];
    prmt.b32 s, $8, 0, 0x4443;  mad.lo.u32 s, s, 128, $12;  ld.shared.b32 e2, [s];
    prmt.b32 s, $9, 0, 0x4442;  mad.lo.u32 s, s, 128, $12;  ld.shared.b32 a3, [s];
    prmt.b32 s, $9, 0, 0x4443;  mad.lo.u32 s, s, 128, $12;  ld.shared.b32 e3, [s];
    prmt.b32 a0, a0, e0, 0x7610;
    prmt.b32 a1, a1, e1, 0x7610;
    prmt.b32 a2, a2, e2, 0x7610;
    prmt.b32 a3, a3, e3, 0x7610;
"""


def _four_bits(kind: str) -> tl.constexpr:
    """Two words of eight codes against 16 pairs of x: two products of 16 × 16."""
    mma = f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32"
    return tl.constexpr(
        "{ .reg .b32 s, a0, a1, a2, a3, e0, e1, e2, e3; .reg .f32 d0, d1, d2, d3;" + _LOOK_UP_PAIRS +
        f"{mma} {{d0, d1, d2, d3}}, {{a0, a1, a2, a3}}, {{$10, $11}}, {{$4, $5, $6, $7}};"
        f"{mma} {{$0, $1, $2, $3}}, {{e0, e1, e2, e3}}, {{$12, $13}}, {{d0, d1, d2, d3}}; }}"
    )  # fmt: skip


def _eight_bits(kind: str) -> tl.constexpr:
    """Two words of four codes against 8 pairs of x: one product."""
    mma = f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32"
    return tl.constexpr(
        "{ .reg .b32 s, a0, a1, a2, a3, e0, e1, e2, e3;" + _LOOK_UP_SINGLES +
        f"{mma} {{$0, $1, $2, $3}}, {{a0, a1, a2, a3}}, {{$10, $11}}, {{$4, $5, $6, $7}}; }}"
    )  # fmt: skip


def _loading(how: str) -> tl.constexpr:
    """Load four words where ``inside`` is not zero."""
    return tl.constexpr(
        "{ .reg .pred p; setp.ne.u32 p, $5, 0;"
        " mov.u32 $0, 0; mov.u32 $1, 0; mov.u32 $2, 0; mov.u32 $3, 0;"
        f" @p ld.global.nc{how}.v4.b32 {{$0, $1, $2, $3}}, [$4]; }}"
    )


_WORDS, _PAIRS = _loading(".L1::no_allocate"), _loading("")  # codes are read once and need no place in the first cache
_FOUR_HALF, _FOUR_BRAIN = _four_bits("f16"), _four_bits("bf16")
_EIGHT_HALF, _EIGHT_BRAIN = _eight_bits("f16"), _eight_bits("bf16")


@triton.jit
def _fill(table):
    """Write the copies, each warp 32 words at a time; the address where a thread's copy begins."""
    return tl.inline_asm_elementwise(
        asm="""
        {
            .shared .align 128 .b8 spread[32768];
            .reg .u32 at, lane, group, groups, k, place, v, w;
            .reg .u64 from;
            .reg .pred more;
            mov.u32 lane, %tid.x;
            shr.u32 group, lane, 5;
            and.b32 lane, lane, 31;
            mov.u32 groups, %ntid.x;
            shr.u32 groups, groups, 5;
            mov.u32 $0, spread;
            mad.lo.u32 $0, lane, 4, $0;
            setp.lt.u32 more, group, 8;
            @!more bra filled;
            next_group:
            shl.b32 at, group, 5;
            add.u32 place, at, lane;
            mul.wide.u32 from, place, 4;
            add.u64 from, from, $1;
            ld.global.nc.u32 v, [from];
            shl.b32 at, at, 7;
            add.u32 at, at, $0;
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
            filled:
            bar.sync 0;
        }
        """,
        constraints="=&r,l",
        args=[table],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def _four_of(place, inside, LOAD: tl.constexpr):
    """Four words; zeros behind the end."""
    return tl.inline_asm_elementwise(
        asm=LOAD,
        constraints="=&r,=&r,=&r,=&r,l,r",
        args=[place, inside],
        dtype=(tl.int32, tl.int32, tl.int32, tl.int32),
        is_pure=True,
        pack=1,
    )


@triton.jit
def _add_four(c0, c1, c2, c3, upper, lower, x0, x1, x2, x3, spread, KIND: tl.constexpr):
    """c + the products of a word of row g and one of row g + 8, of eight codes each."""
    ASM: tl.constexpr = _FOUR_HALF if KIND == HALF else _FOUR_BRAIN
    return tl.inline_asm_elementwise(
        asm=ASM,
        constraints="=f,=f,=f,=f,f,f,f,f,r,r,r,r,r,r,r",
        args=[c0, c1, c2, c3, upper, lower, x0, x1, x2, x3, spread],
        dtype=(tl.float32, tl.float32, tl.float32, tl.float32),
        is_pure=True,
        pack=1,
    )


@triton.jit
def _add_eight(c0, c1, c2, c3, upper, lower, x0, x1, spread, KIND: tl.constexpr):
    """The same of four codes each."""
    ASM: tl.constexpr = _EIGHT_HALF if KIND == HALF else _EIGHT_BRAIN
    return tl.inline_asm_elementwise(
        asm=ASM,
        constraints="=f,=f,=f,=f,f,f,f,f,r,r,r,r,r",
        args=[c0, c1, c2, c3, upper, lower, x0, x1, spread],
        dtype=(tl.float32, tl.float32, tl.float32, tl.float32),
        is_pure=True,
        pack=1,
    )


@triton.jit
def _loads(tile, place, chunk, turn, turns, chunks, BITS: tl.constexpr, WARPS: tl.constexpr):
    """What a turn needs: words of row g, words of row g + 8, and the pairs of x that they stand against."""
    mine = tile + turn.to(tl.int64) * (1024 * WARPS)
    there = (chunk >= 0).to(tl.int32) * (turn < turns).to(tl.int32)
    inside = (chunk + turn * (4 * WARPS) < chunks).to(tl.int32)
    here = place + turn.to(tl.int64) * (16 * WARPS * 64 // BITS)
    u = _four_of(mine, there, _WORDS)
    v = _four_of(mine + 512, there, _WORDS)
    x0 = _four_of(here, inside, _PAIRS)
    x1 = _four_of(here + 16, inside, _PAIRS)
    if BITS == 4:
        x2 = _four_of(here + 32, inside, _PAIRS)
        x3 = _four_of(here + 48, inside, _PAIRS)
    else:
        x2, x3 = x0, x1
    return u, v, x0, x1, x2, x3


@triton.jit
def _turn(c, loaded, spread, BITS: tl.constexpr, KIND: tl.constexpr):
    """c + the products of a turn."""
    u, v, x0, x1, x2, x3 = loaded
    for i in tl.static_range(4):
        if BITS == 4:
            c = _add_four(c[0], c[1], c[2], c[3], u[i], v[i], x0[i], x1[i], x2[i], x3[i], spread, KIND)
        else:
            c = _add_eight(c[0], c[1], c[2], c[3], u[i], v[i], x0[i], x1[i], spread, KIND)
    return c


@triton.jit
def product(
    words, x, table, out, rows, stride, chunks, many, BITS: tl.constexpr, KIND: tl.constexpr, TILES: tl.constexpr,
    WARPS: tl.constexpr,
):  # fmt: skip
    """``out[b, row]`` for 16·TILES rows and eight vectors of x, which has ``chunks`` times four words' columns.

    ``stride``: words of a row, a multiple of 16·WARPS. Two turns are on their way while one is multiplied.
    """
    thread = tl.arange(0, 32 * WARPS)[None, :]
    lane, warp = thread % 32, thread // 32
    chunk = 4 * warp + lane % 4
    band = tl.minimum(tl.program_id(0) * TILES + tl.arange(0, TILES)[:, None], (rows - 1) // 16)
    tile = (words + (band.to(tl.int64) * (stride // 16) + warp) * 256 + 4 * lane).to(tl.int64)
    b = tl.minimum(tl.program_id(1) * 8 + lane // 4, many - 1)
    place = (x + (b * chunks + chunk).to(tl.int64) * (64 // BITS)).to(tl.int64)
    turns = stride // (16 * WARPS)
    even = _loads(tile, place, chunk, turns * 0, turns, chunks, BITS, WARPS)
    odd = _loads(tile, place, chunk, turns * 0 + 1, turns, chunks, BITS, WARPS)
    spread = _fill(table.to(tl.int64) + thread.to(tl.int64) * 0)
    zero = tl.zeros([TILES, 32 * WARPS], tl.float32)
    c = (zero, zero, zero, zero)
    for turn in range(0, turns, 2):
        c = _turn(c, even, spread, BITS, KIND)
        even = _loads(tile, place, chunk, turn + 2, turns, chunks, BITS, WARPS)
        c = _turn(c, odd, spread, BITS, KIND)
        odd = _loads(tile, place, chunk, turn + 3, turns, chunks, BITS, WARPS)
    _store(out, tl.join(tl.join(c[0], c[2]), tl.join(c[1], c[3])), rows, many, TILES, WARPS)


@triton.jit
def _store(out, c, rows, many, TILES: tl.constexpr, WARPS: tl.constexpr):
    """Add the warps' sums. A lane's four belong to rows g and g + 8 and to vectors 2·t and 2·t + 1."""
    total = tl.sum(tl.reshape(c, [TILES, WARPS, 128]), axis=1)
    i = tl.arange(0, 128)[None, :]
    row = tl.program_id(0) * (16 * TILES) + 16 * tl.arange(0, TILES)[:, None] + i // 16 + i // 2 % 2 * 8
    b = tl.program_id(1) * 8 + i // 4 % 4 * 2 + i % 2
    tl.store(out + b * rows + row, total, mask=(row < rows) & (b < many))
