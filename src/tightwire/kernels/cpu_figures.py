"""Figures of tensors, rows or buckets on a CPU: `codecs.passes.Figures` by the loops of `kernels.numba_figures`.

    ├─ chunk ─┤├─ chunk ─┤├ c ┤├─ chunk ─┤├ c ┤       at most so long, none across two stretches; shared by threads
    ├────────── stretch ──────┤├── stretch ───┤       chunks of a stretch are put together in their order

Many small tensors are one call, and how many threads there are changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tightwire.algebra.tensors import Bucket, Spec
from tightwire.codecs.stretches import Per, lengths

_CHUNK = 1 << 14  # elements
_SHARED_FROM = 1 << 18  # elements, below which a second thread gains nothing


@dataclass(frozen=True, eq=False)
class Chunks:
    """Where chunks begin and end, the first chunk of each stretch, and how long stretches are."""

    begin_C: Any  # noqa: N815
    end_C: Any  # noqa: N815
    first_S: Any  # noqa: N815
    length_S: Any  # noqa: N815

    def together(self, figure_C: Any, how: Any = np.add) -> Any:
        """The figure of each stretch."""
        return how.reduceat(figure_C, self.first_S) if len(self.first_S) else figure_C

    def share(self, run: Callable[[int, int], object]) -> None:
        """Run over all chunks, by as many threads as torch uses."""
        count, threads = len(self.begin_C), torch.get_num_threads()
        if threads == 1 or count < threads or self.length_S.sum() < _SHARED_FROM:
            run(0, count)
            return
        edges = np.searchsorted(self.end_C, np.linspace(0, self.end_C[-1], threads + 1)[1:-1]).tolist()
        with ThreadPoolExecutor(threads) as pool:
            pairs = zip([0, *edges], [*edges, count], strict=True)
            for done in [pool.submit(run, low, high) for low, high in pairs]:
                done.result()


@lru_cache(maxsize=256)
def chunks(spec: Spec, per: Per) -> Chunks:
    """Those of a layout, made once. An empty stretch has one chunk of nothing."""
    length = np.array([part for s in spec.segments for part in lengths(s, per)], np.int64)
    count = np.maximum(1, -(-length // _CHUNK))
    start_S, first_S = np.cumsum(length) - length, np.cumsum(count) - count
    number_C = np.arange(count.sum()) - np.repeat(first_S, count)
    begin_C = np.repeat(start_S, count) + number_C * _CHUNK
    end_C = np.minimum(begin_C + _CHUNK, np.repeat(start_S + length, count))
    return Chunks(begin_C, end_C, first_S, length)


@dataclass(frozen=True)
class CpuFigures:
    """The loops, given arrays."""

    figures: Any

    def means(self, x: Bucket) -> Tensor:
        """The mean below zero and the mean from zero on of each row."""
        of, value_N = chunks(x.spec, "row"), x.flat.numpy()
        low_C, high_C = np.empty(len(of.begin_C)), np.empty(len(of.begin_C))
        count_C = np.empty(len(of.begin_C), np.int64)
        of.share(lambda a, b: self.figures.sides(value_N, of.begin_C, of.end_C, low_C, high_C, count_C, a, b))
        count_R = of.together(count_C)
        low_R = of.together(low_C) / np.maximum(1, of.length_S - count_R)
        high_R = of.together(high_C) / np.maximum(1, count_R)
        return torch.from_numpy(np.stack([low_R, high_R], 1).astype(np.float32))

    def sizes(self, x: Bucket, per: Per) -> tuple[Tensor, Tensor]:
        """The sum of squares and the largest magnitude of each stretch."""
        of, value_N = chunks(x.spec, per), x.flat.numpy()
        square_C, most_C = np.empty(len(of.begin_C)), np.empty(len(of.begin_C), np.float32)
        of.share(lambda a, b: self.figures.sizes(value_N, of.begin_C, of.end_C, square_C, most_C, a, b))
        return torch.from_numpy(of.together(square_C)), torch.from_numpy(of.together(most_C, np.maximum))
