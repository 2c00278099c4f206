"""Momentum, accumulation and the search for large elements in one pass over memory, compiled by Numba.

A chunk of 64 elements is updated without a branch while those above an edge are counted; only where the count is not
zero are the 64 looked at again, and their values noted beside their positions while both are in the cache. The constant
trip count is what lets the compiler vectorise. A chunk that holds NaN or infinity is left as it was. Blocks are
independent, so threads share them. The arithmetic is that of `memories`, operation by operation: results are equal bit
for bit.
"""
# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from functools import cache
from math import inf
from typing import Any

import numba
import numpy as np
import torch
from numba.extending import register_jitable

CHUNK = 64
BLOCK = 1 << 16
NOT_FINITE = -1
_AGAIN = 3  # searches from lower edges on


@register_jitable(inline="always")
def _add(x: Any, u: Any, v: Any, m: Any) -> Any:
    """Error feedback: v ← v + x."""
    return u, v + x


@register_jitable(inline="always")
def _heavy_ball(x: Any, u: Any, v: Any, m: Any) -> Any:
    """U ← m·u + x; v ← v + u."""
    new = u * m + x
    return new, v + new


@register_jitable(inline="always")
def _nesterov(x: Any, u: Any, v: Any, m: Any) -> Any:
    """U ← m·(u + x); v ← v + x + u."""
    new = (u + x) * m
    return new, (v + x) + new


def _sweeping(update: Any, *, moves: bool, threads: bool) -> Any:
    """A function that updates u and v by scale·x, and notes v where |v| ≥ edge: block b from ``b·BLOCK`` on."""

    def sweep(  # noqa: PLR0912, PLR0913, PLR0917
        x: Any, u: Any, v: Any, scale: Any, m: Any, edge: Any, counts: Any, found: Any, values: Any
    ) -> None:
        for b in numba.prange((len(x) + BLOCK - 1) // BLOCK):
            base = b * BLOCK
            end = min(base + BLOCK, len(x))
            xb, ub, vb = x[base:end], u[base:end], v[base:end]
            n, whole, strange = 0, len(xb) // CHUNK, 0
            for c in range(whole):
                begin = c * CHUNK
                above, bad = np.int32(0), np.int32(0)
                for j in range(CHUNK):
                    bad += np.int32(not abs(xb[begin + j]) < inf)
                if bad:
                    strange = 1
                    continue
                for j in range(CHUNK):
                    new_u, new_v = update(xb[begin + j] * scale, ub[begin + j], vb[begin + j], m)
                    if moves:
                        ub[begin + j] = new_u
                    vb[begin + j] = new_v
                    above += np.int32(abs(new_v) >= edge)
                if above:
                    for j in range(CHUNK):
                        if abs(vb[begin + j]) >= edge:
                            found[base + n], values[base + n] = base + begin + j, vb[begin + j]
                            n += 1
            for i in range(whole * CHUNK, len(xb)):
                if not abs(xb[i]) < inf:
                    strange = 1
                    continue
                new_u, vb[i] = update(xb[i] * scale, ub[i], vb[i], m)
                if moves:
                    ub[i] = new_u
                if abs(vb[i]) >= edge:
                    found[base + n], values[base + n] = base + i, vb[i]
                    n += 1
            counts[b] = NOT_FINITE if strange else n

    # ``update`` is not compiled by itself: what is has another name in each process, and is never found in the cache
    return numba.njit(cache=True, nogil=True, parallel=threads)(sweep)


@cache
def _sweep(form: str, threads: bool) -> Any:
    """Compiled when it is first needed, and kept on disk."""
    update = {"add": _add, "heavy-ball": _heavy_ball, "nesterov": _nesterov}[form]
    return _sweeping(update, moves=form != "add", threads=threads)


@numba.njit(cache=True, nogil=True)
def look(v: Any, edge: Any, counts: Any, found: Any, values: Any) -> None:
    """Search v once more, from a lower edge on."""
    for b in range(len(counts)):
        base = b * BLOCK
        vb = v[base : min(base + BLOCK, len(v))]
        n, whole = 0, len(vb) // CHUNK
        for c in range(whole):
            begin = c * CHUNK
            above = np.int32(0)
            for j in range(CHUNK):
                above += np.int32(abs(vb[begin + j]) >= edge)
            if above:
                for j in range(CHUNK):
                    if abs(vb[begin + j]) >= edge:
                        found[base + n], values[base + n] = base + begin + j, vb[begin + j]
                        n += 1
        for i in range(whole * CHUNK, len(vb)):
            if abs(vb[i]) >= edge:
                found[base + n], values[base + n] = base + i, vb[i]
                n += 1
        counts[b] = n


@numba.njit(cache=True, nogil=True)
def total(counts: Any) -> int:
    """How many were found; `NOT_FINITE` if a block was left as it was."""
    n = 0
    for b in range(len(counts)):
        if counts[b] == NOT_FINITE:
            return NOT_FINITE
        n += counts[b]
    return n


@numba.njit(cache=True, nogil=True)
def choose(counts: Any, found: Any, values: Any, n: int, wanted: int) -> Any:
    """The ``wanted`` largest of the n that were found, ascending, their values, and the least magnitude among them.

    Among equals the lower position wins. Fewer than wanted: none of them, and a magnitude of −1.
    """
    taken = wanted if n >= wanted else 0
    index, value, size = np.empty(taken, np.int64), np.empty(taken, np.float32), np.empty(n, np.float32)
    if n < wanted:
        return index, value, np.float32(-1)
    at = 0
    for b in range(len(counts)):
        for j in range(b * BLOCK, b * BLOCK + counts[b]):
            size[at] = abs(values[j])
            at += 1
    least = np.partition(size, n - wanted)[n - wanted]
    level = wanted
    for j in range(n):
        level -= size[j] > least
    at = 0
    for b in range(len(counts)):
        for j in range(b * BLOCK, b * BLOCK + counts[b]):
            take = abs(values[j]) > least
            if abs(values[j]) == least and level > 0:
                take = True
                level -= 1
            if take:
                index[at], value[at] = found[j], values[j]
                at += 1
    return index, value, least


class Searcher:
    """Room to search in, kept from step to step: pages that are never touched cost nothing."""

    def __init__(self, most: int) -> None:
        blocks = -(-most // BLOCK)
        self._found = np.empty(blocks * BLOCK, np.int64)
        self._values = np.empty(blocks * BLOCK, np.float32)
        self._counts = np.empty(blocks, np.int64)

    def search(
        self, x: Any, u: Any, v: Any, *, scale: float, momentum: float, form: str, wanted: int, edge: float
    ) -> tuple[Any, Any, float, int] | None:
        """Update u and v by one flat tensor; the positions of the ``wanted`` largest of v, and their values.

        Beside them: the least magnitude among them (−1: too few were found, also from lower edges on), and how many
        survived the search from ``edge`` on. None: x is not finite.
        """
        noted = self._counts[: -(-len(x) // BLOCK)], self._found, self._values
        run = _sweep(form, torch.get_num_threads() > 1)
        run(x, u, v, np.float32(scale), np.float32(momentum), np.float32(edge), *noted)
        n = survivors = total(noted[0])
        if survivors == NOT_FINITE:
            return None
        for again in range(1, _AGAIN + 1):
            if n < wanted:
                look(v, np.float32(edge * 0.9**again), *noted)
                n = total(noted[0])
        if not wanted:
            return self._found[:0], self._values[:0], 0.0, survivors
        index, value, least = choose(*noted, n, wanted)
        return index, value, float(least), survivors
