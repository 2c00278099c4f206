"""Bits, ternary codes and levels on a CPU: `codecs.passes` by the loops of `kernels.numba_bits`, shared by threads.

A thread takes a stretch of the bucket that begins at a whole byte. Threads are Python's, because the loops hold no
lock: nothing else has to be loaded in a process that was forked.
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
from tightwire.algebra.world import At
from tightwire.codecs.dice import seeds
from tightwire.codecs.passes import Passes
from tightwire.kernels.compiled import compiled
from tightwire.kernels.cpu_figures import CpuFigures

FROM_NUMEL = 1 << 16  # smaller buckets are as fast without
_WHOLE = 64  # elements that fill whole bytes, whatever their codes


@lru_cache(maxsize=256)
def layout(spec: Spec) -> tuple[Any, Any, Any, Any]:
    """Where tensors begin and end, their first rows counted through all tensors, and how wide rows are."""
    begins = np.array([s.offset for s in spec.segments])
    ends = np.array([s.offset + s.numel for s in spec.segments])
    rows = np.cumsum([0, *(s.rows for s in spec.segments)])[:-1]
    return begins, ends, rows, np.array([max(1, s.row_numel) for s in spec.segments])


def in_stretches(run: Callable[[int, int], object], numel: int) -> None:
    """Run over all elements, by as many threads as torch uses."""
    threads = torch.get_num_threads()
    size = -(-numel // (threads * _WHOLE)) * _WHOLE
    if threads == 1 or size >= numel:
        run(0, numel)
        return
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(run, low, min(low + size, numel)) for low in range(0, numel, size)]:
            done.result()


@dataclass(frozen=True)
class CpuPasses(CpuFigures):
    """The loops, given arrays."""

    loops: Any

    def signs(self, x: Bucket, mean_R2: Tensor) -> tuple[Tensor, Tensor]:
        """Bits, and what they stand for."""
        byte_B = torch.empty(-(-x.spec.numel // 8), dtype=torch.uint8)
        rebuilt_N = torch.empty_like(x.flat)
        arrays = x.flat.numpy(), _plain(mean_R2), rebuilt_N.numpy(), byte_B.numpy(), *layout(x.spec)
        in_stretches(lambda low, high: self.loops.pack_signs(*arrays, low, high), x.spec.numel)
        return byte_B, rebuilt_N

    def add_signs_(self, out: Bucket, byte_B: Tensor, mean_R2: Tensor) -> None:
        """Out ← out + what bits stand for."""
        arrays = out.flat.numpy(), _plain(mean_R2), _plain(byte_B), *layout(out.spec)
        in_stretches(lambda low, high: self.loops.add_signs(*arrays, low, high), out.spec.numel)

    def ternary(self, x: Bucket, value_N: Tensor, scale_S: Tensor, at: At) -> tuple[Tensor, Tensor]:
        """Codes, and what they stand for."""
        start_S, gamma_S = _seeds(x, at)
        byte_B = torch.empty(-(-x.spec.numel // 4), dtype=torch.uint8)
        rebuilt_N = torch.empty_like(value_N)
        begins, ends, _, _ = layout(x.spec)
        arrays = value_N.numpy(), _plain(scale_S), start_S, gamma_S, rebuilt_N.numpy(), byte_B.numpy(), begins, ends
        in_stretches(lambda low, high: self.loops.pack_ternary(*arrays, low, high), x.spec.numel)
        return byte_B, rebuilt_N

    def add_ternary_(self, out: Bucket, byte_B: Tensor, scale_S: Tensor) -> None:
        """Out ← out + what codes stand for."""
        begins, ends, _, _ = layout(out.spec)
        arrays = out.flat.numpy(), _plain(scale_S), _plain(byte_B), begins, ends
        in_stretches(lambda low, high: self.loops.add_ternary(*arrays, low, high), out.spec.numel)

    def levels(self, x: Bucket, norm_B: Tensor, bucket: int, value_L: Tensor, at: At) -> tuple[Tensor, Tensor]:
        """Codes, and what they stand for."""
        code_N, rebuilt_N = torch.empty(x.spec.numel, dtype=torch.uint8), torch.empty_like(x.flat)
        place = _buckets(x.spec, bucket)
        arrays = (
            x.flat.numpy(), _plain(norm_B), value_L.numpy(), _sign(value_L), *_seeds(x, at), code_N.numpy(),
            rebuilt_N.numpy(), *place, bucket,
        )  # fmt: skip
        in_stretches(lambda low, high: self.loops.draw_levels(*arrays, low, high), x.spec.numel)
        return code_N, rebuilt_N

    def add_levels_(self, out: Bucket, code_N: Tensor, norm_B: Tensor, bucket: int, value_L: Tensor) -> None:
        """Out ← out + what codes stand for."""
        place = _buckets(out.spec, bucket)
        arrays = out.flat.numpy(), _plain(code_N), _plain(norm_B), value_L.numpy(), _sign(value_L), *place, bucket
        in_stretches(lambda low, high: self.loops.add_levels(*arrays, low, high), out.spec.numel)


@lru_cache(maxsize=256)
def _buckets(spec: Spec, bucket: int) -> tuple[Any, Any, Any]:
    """Where tensors begin and end, and their first buckets counted through all tensors."""
    begins, ends, _, _ = layout(spec)
    return begins, ends, np.cumsum([0, *(-(-s.numel // bucket) for s in spec.segments)])[:-1]


def _sign(value_L: Tensor) -> Any:
    """The bit above all levels."""
    return np.uint8(1 << (len(value_L) - 1).bit_length())


def _seeds(x: Bucket, at: At) -> Any:
    return np.array(seeds(x.spec, at), dtype=np.int32).T.copy().view(np.uint32)


def _plain(tensor: Tensor) -> Any:
    """An array of one kind, however the tensor lies in a message: one compilation serves all."""
    return np.ascontiguousarray(tensor.numpy())


def cpu_passes(x: Bucket) -> Passes | None:
    """These passes, if they are for this bucket."""
    if x.flat.device.type != "cpu" or x.spec.dtype != torch.float32 or x.spec.numel < FROM_NUMEL:
        return None
    loops, figures = (compiled("numba", "packing bits", family) for family in ("bits", "figures"))
    return None if loops is None or figures is None else CpuPasses(figures, loops)
