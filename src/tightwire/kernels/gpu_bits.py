"""One-bit, ternary and QSGD codes on a GPU: `codecs.passes` by `kernels.triton_bits`, and the tables it reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.dice import seeds
from tightwire.codecs.passes import Passes
from tightwire.kernels.compiled import compiled

_BLOCK = 1024
_MOST = 1 << 31  # elements that 32-bit places reach


@dataclass(frozen=True)
class Tables:
    """Of one layout, on the device: tensors that lie in each block, where tensors begin and end, their rows."""

    blocks: int
    first: Tensor
    last: Tensor
    begin: Tensor
    end: Tensor
    base: Tensor
    width: Tensor


@lru_cache(maxsize=256)
def tables(spec: Spec, device: torch.device) -> Tables:
    """Made once a layout."""
    begins = torch.tensor([s.offset for s in spec.segments])
    ends = torch.tensor([s.offset + s.numel for s in spec.segments])
    rows = torch.tensor([0, *(s.rows for s in spec.segments)]).cumsum(0)[:-1]
    widths = torch.tensor([max(1, s.row_numel) for s in spec.segments])
    starts = torch.arange(0, spec.numel, _BLOCK)
    first = torch.searchsorted(ends, starts, right=True)  # the first that ends beyond
    last = torch.searchsorted(begins, (starts + _BLOCK).clamp(max=spec.numel)) - 1  # the last that begins before
    made = [part.to(torch.int32).to(device) for part in (first, last, begins, ends, rows, widths)]
    return Tables(len(starts), *made)


@dataclass(frozen=True)
class GpuPasses:
    """One launch each; nothing waits for the device."""

    kernel: Any

    def signs(self, x: Bucket, mean_R2: Tensor) -> tuple[Tensor, Tensor]:
        """Bits, and what they stand for."""
        t = tables(x.spec, x.flat.device)
        byte_B = torch.empty(-(-x.spec.numel // 8), dtype=torch.uint8, device=x.flat.device)
        rebuilt_N = torch.empty_like(x.flat)
        self.kernel.pack_signs[(t.blocks,)](
            x.flat, mean_R2.contiguous(), rebuilt_N, byte_B, t.first, t.last, t.begin, t.end, t.base, t.width,
            x.spec.numel, BLOCK=_BLOCK,
        )  # fmt: skip
        return byte_B, rebuilt_N

    def add_signs_(self, out: Bucket, byte_B: Tensor, mean_R2: Tensor) -> None:
        """Out ← out + what bits stand for."""
        t = tables(out.spec, out.flat.device)
        self.kernel.add_signs[(t.blocks,)](
            out.flat, mean_R2.contiguous(), byte_B, t.first, t.last, t.begin, t.end, t.base, t.width, out.spec.numel,
            BLOCK=_BLOCK,
        )  # fmt: skip

    def ternary(self, x: Bucket, value_N: Tensor, scale_S: Tensor, at: At) -> tuple[Tensor, Tensor]:
        """Codes, and what they stand for."""
        t = tables(x.spec, x.flat.device)
        start_S, gamma_S = _seeds(x, at)
        byte_B = torch.empty(-(-x.spec.numel // 4), dtype=torch.uint8, device=x.flat.device)
        rebuilt_N = torch.empty_like(value_N)
        self.kernel.pack_ternary[(t.blocks,)](
            value_N, scale_S.contiguous(), start_S, gamma_S, rebuilt_N, byte_B, t.first, t.last, t.begin, t.end,
            x.spec.numel, BLOCK=_BLOCK, enable_fp_fusion=False,
        )  # fmt: skip
        return byte_B, rebuilt_N

    def add_ternary_(self, out: Bucket, byte_B: Tensor, scale_S: Tensor) -> None:
        """Out ← out + what codes stand for."""
        t = tables(out.spec, out.flat.device)
        self.kernel.add_ternary[(t.blocks,)](
            out.flat, scale_S.contiguous(), byte_B, t.first, t.last, t.begin, t.end, out.spec.numel, BLOCK=_BLOCK
        )

    def levels(self, x: Bucket, norm_B: Tensor, bucket: int, value_L: Tensor, at: At) -> tuple[Tensor, Tensor]:
        """Codes, and what they stand for."""
        t = tables(x.spec, x.flat.device)
        start_S, gamma_S = _seeds(x, at)
        code_N = torch.empty(x.spec.numel, dtype=torch.uint8, device=x.flat.device)
        rebuilt_N = torch.empty_like(x.flat)
        top = len(value_L) - 1
        self.kernel.draw_levels[(t.blocks,)](
            x.flat, norm_B.contiguous(), value_L, start_S, gamma_S, code_N, rebuilt_N, t.first, t.last, t.begin, t.end,
            *_buckets(x.spec, bucket, x.flat.device), float(top), 1 << top.bit_length(), x.spec.numel,
            BLOCK=_BLOCK, enable_fp_fusion=False,
        )  # fmt: skip
        return code_N, rebuilt_N

    def add_levels_(self, out: Bucket, code_N: Tensor, norm_B: Tensor, bucket: int, value_L: Tensor) -> None:
        """Out ← out + what codes stand for."""
        t = tables(out.spec, out.flat.device)
        top = len(value_L) - 1
        self.kernel.add_levels[(t.blocks,)](
            out.flat, code_N.contiguous(), norm_B.contiguous(), value_L, t.first, t.last, t.begin, t.end,
            *_buckets(out.spec, bucket, out.flat.device), top, 1 << top.bit_length(), out.spec.numel,
            BLOCK=_BLOCK, enable_fp_fusion=False,
        )  # fmt: skip


def _seeds(x: Bucket, at: At) -> Tensor:
    """Start and gamma of each tensor, a row each."""
    return torch.tensor(seeds(x.spec, at), dtype=torch.int32).view(-1, 2).t().contiguous().to(x.flat.device)


@lru_cache(maxsize=256)
def _buckets(spec: Spec, bucket: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The first bucket of each tensor, counted through all, and how long buckets are."""
    counts = torch.tensor([0, *(-(-s.numel // bucket) for s in spec.segments)])
    first = counts.cumsum(0)[:-1].to(torch.int32).to(device)
    return first, torch.full_like(first, bucket)


def gpu_passes(x: Bucket) -> Passes | None:
    """These passes, if they are for this bucket."""
    if not x.flat.is_cuda or x.spec.dtype != torch.float32 or not 0 < x.spec.numel < _MOST:
        return None
    kernel = compiled("triton", "packing bits on the GPU", "bits")
    return None if kernel is None else GpuPasses(kernel)
