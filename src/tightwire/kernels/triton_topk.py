"""Momentum, accumulation, search and exact selection on a GPU, compiled by Triton.

`sweep` reads x, u and v once and writes u and v once; what lies above its tensor's edge is noted in the tensor's slots.
`choose` then selects exactly: one program a tensor finds the k-th largest magnitude by bisection over the bits of the
survivors, which order as the magnitudes do. Multiplication and addition are not fused, so results equal the composed
ones bit for bit. A block that holds NaN or infinity is left as it was, and reported.
"""
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917, SIM108

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def sweep(
    x, u, v, low, size, owner, edge, slot_base, slot_cap, count, place, bits, flag, m,
    FORM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One block of one tensor. FORM: 0 adds x to v, 1 is heavy-ball momentum, 2 Nesterov's."""
    block = tl.program_id(0)
    start, numel, tensor = tl.load(low + block), tl.load(size + block), tl.load(owner + block)
    i = tl.arange(0, BLOCK)
    inside = i < numel
    at = start + i
    given = tl.load(x + at, mask=inside, other=0.0)
    bad = tl.sum((~(tl.abs(given) < float("inf"))).to(tl.int32), axis=0)
    if bad > 0:
        tl.atomic_or(flag, 1)
    else:
        owed = tl.load(v + at, mask=inside, other=0.0)
        if FORM == 0:
            owed = owed + given
        elif FORM == 1:
            speed = tl.load(u + at, mask=inside, other=0.0) * m + given
            owed = owed + speed
            tl.store(u + at, speed, mask=inside)
        else:
            speed = (tl.load(u + at, mask=inside, other=0.0) + given) * m
            owed = (owed + given) + speed
            tl.store(u + at, speed, mask=inside)
        tl.store(v + at, owed, mask=inside)
        magnitude = tl.abs(owed)
        hit = inside & (magnitude >= tl.load(edge + tensor))
        if tl.sum(hit.to(tl.int32), axis=0) > 0:
            slot = tl.atomic_add(count + tensor + i * 0, 1, mask=hit)
            kept = hit & (slot < tl.load(slot_cap + tensor))
            base = tl.load(slot_base + tensor)
            tl.store(place + base + slot, at, mask=kept)
            tl.store(bits + base + slot, magnitude.to(tl.int32, bitcast=True), mask=kept)


@triton.jit
def _at_least(bits, n, bound, CHUNK: tl.constexpr):
    """How many of n keys are at least ``bound``."""
    i = tl.arange(0, CHUNK)
    total = 0
    for begin in range(0, n, CHUNK):
        key = tl.load(bits + begin + i, mask=begin + i < n, other=-1)
        total += tl.sum((key >= bound).to(tl.int32), axis=0)
    return total


@triton.jit
def _up_to(bits, place, n, level, last, CHUNK: tl.constexpr):
    """How many keys equal ``level`` at positions up to ``last``."""
    i = tl.arange(0, CHUNK)
    total = 0
    for begin in range(0, n, CHUNK):
        inside = begin + i < n
        key = tl.load(bits + begin + i, mask=inside, other=-1)
        position = tl.load(place + begin + i, mask=inside, other=0)
        total += tl.sum(((key == level) & (position <= last)).to(tl.int32), axis=0)
    return total


@triton.jit
def _level_of_few(key, k):
    """The k-th largest of keys that are at hand: bisection, two bits at a time."""
    bound = tl.full((), 1 << 30, tl.int32)
    level = tl.where(tl.sum((key >= bound).to(tl.int32), axis=0) >= k, bound, 0)
    for pair in tl.static_range(15):
        width = 1 << (28 - 2 * pair)
        one, two, three = level + width, level + 2 * width, level + 3 * width
        hits = (key >= one).to(tl.int64) + ((key >= two).to(tl.int64) << 20) + ((key >= three).to(tl.int64) << 40)
        counts = tl.sum(hits, axis=0)  # three counts in one sum
        level = tl.where((counts & 0xFFFFF) >= k, one, level)
        level = tl.where(((counts >> 20) & 0xFFFFF) >= k, two, level)
        level = tl.where((counts >> 40) >= k, three, level)
    return level


@triton.jit
def _level_of_many(bits, n, k, CHUNK: tl.constexpr):
    """The same, of keys in memory."""
    level = tl.full((), 0, tl.int32)
    for shift in range(31):
        bound = level | (1 << (30 - shift))
        level = tl.where(_at_least(bits, n, bound, CHUNK) >= k, bound, level)
    return level


@triton.jit
def _last_of_equals(bits, place, n, level, missing, PLACE_BITS: tl.constexpr, CHUNK: tl.constexpr):
    """The position of the last of the ``missing`` first keys that equal ``level``."""
    last = tl.full((), 0, tl.int64)
    for shift in range(PLACE_BITS):
        bound = last | (tl.full((), 1, tl.int64) << (PLACE_BITS - 1 - shift))
        last = tl.where(_up_to(bits, place, n, level, bound - 1, CHUNK) < missing, bound, last)
    return last


@triton.jit
def choose(
    owner, slot_base, slot_cap, count, wanted, out_base, place, bits, chosen, least, flag,
    CHUNK: tl.constexpr, PLACE_BITS: tl.constexpr,
):  # fmt: skip
    """One tensor: the ``wanted`` survivors of largest magnitude, the lower position first among equals."""
    tensor = tl.load(owner + tl.program_id(0))
    n, k = tl.load(count + tensor), tl.load(wanted + tensor)
    base, out = tl.load(slot_base + tensor), tl.load(out_base + tensor)
    i = tl.arange(0, CHUNK)
    if (n < k) | (n > tl.load(slot_cap + tensor)):
        tl.atomic_or(flag, 2)
        tl.store(least + tensor, -1.0)
    else:
        first = tl.load(bits + base + i, mask=i < n, other=-1)
        if n <= CHUNK:
            level = _level_of_few(first, k)
        else:
            level = _level_of_many(bits + base, n, k, CHUNK)
        above, equal = tl.full((), 0, tl.int32), tl.full((), 0, tl.int32)
        for begin in range(0, n, CHUNK):
            key = tl.load(bits + base + begin + i, mask=begin + i < n, other=-1)
            above += tl.sum((key > level).to(tl.int32), axis=0)
            equal += tl.sum((key == level).to(tl.int32), axis=0)
        last = tl.full((), (1 << PLACE_BITS) - 1, tl.int64)
        if equal > k - above:
            last = _last_of_equals(bits + base, place + base, n, level, k - above, PLACE_BITS, CHUNK)
        taken = 0
        for begin in range(0, n, CHUNK):
            inside = begin + i < n
            key = tl.load(bits + base + begin + i, mask=inside, other=-1)
            position = tl.load(place + base + begin + i, mask=inside, other=0)
            take = inside & ((key > level) | ((key == level) & (position <= last)))
            slot = taken + tl.cumsum(take.to(tl.int32), axis=0) - 1
            tl.store(chosen + out + slot, position, mask=take)
            taken += tl.sum(take.to(tl.int32), axis=0)
        tl.store(least + tensor, level.to(tl.float32, bitcast=True))


@triton.jit
def learn(tensors, count, wanted, least, magnitude, factor, edge, MANY, FEW, CHUNK: tl.constexpr):
    """Where to look in the next step, for all tensors at once: as `kernels.cpu_topk.Edge`, but without its trend."""
    i = tl.program_id(0) * CHUNK + tl.arange(0, CHUNK)
    inside = i < tensors
    n = tl.load(count + i, mask=inside, other=0)
    k = tl.load(wanted + i, mask=inside, other=0)
    found = tl.load(least + i, mask=inside, other=0.0)
    old = tl.load(factor + i, mask=inside, other=1.0)
    faster = tl.where(n > 3 * MANY * k + FEW, 1.04, tl.where(n > MANY * k + FEW, 1.01, 1.0))
    new = tl.where(n < k, old * 0.97, tl.minimum(old * faster, 1.1))
    value = tl.where(found >= 0, found, tl.load(magnitude + i, mask=inside, other=0.0))
    tl.store(factor + i, new, mask=inside)
    tl.store(magnitude + i, value, mask=inside)
    tl.store(edge + i, tl.where(k > 0, value * new, float("inf")), mask=inside)
    tl.store(count + i, 0, mask=inside)


@triton.jit
def positions(gaps, bases, index, astray, numel, CHUNK: tl.constexpr):
    """One payload: positions from 16-bit gaps. One beyond the bucket is reported, and led back into it."""
    begin = tl.load(bases + 2 * tl.program_id(0))
    n = tl.load(bases + 2 * tl.program_id(0) + 1)
    i = tl.arange(0, CHUNK)
    last = tl.full((), -1, tl.int64)
    for first in range(0, n, CHUNK):
        inside = first + i < n
        gap = tl.load(gaps + begin + first + i, mask=inside, other=-1).to(tl.int64) & 0xFFFF
        step = tl.where(inside, gap + 1, 0)
        at = last + tl.cumsum(step, axis=0)
        tl.store(index + begin + first + i, tl.minimum(at, numel - 1), mask=inside)
        last += tl.sum(step, axis=0)
    if last >= numel:
        tl.atomic_max(astray, 1)


@triton.jit
def scatter(out, index, values, begin, n, CHUNK: tl.constexpr):
    """Add one payload's values at its positions, which are all different."""
    i = tl.program_id(0) * CHUNK + tl.arange(0, CHUNK)
    inside = i < n
    at = tl.load(index + begin + i, mask=inside, other=0)
    value = tl.load(values + begin + i, mask=inside, other=0.0)
    tl.store(out + at, tl.load(out + at, mask=inside, other=0.0) + value, mask=inside)
