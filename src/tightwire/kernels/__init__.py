"""Fused fast paths. A kernel replaces a whole `Compressor` for one device and is found here, never imported by an axis.

A kernel registers a maker; the maker returns None where its compiler or device is missing. The law for every kernel
(`tightwire.testing.kernels`): the same result as the composed memory and codec. Packing of bits is offered to the
codecs themselves (`codecs.passes`), because an exchange between owners drives those, a piece at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from tightwire.algebra.codec import Codec
from tightwire.algebra.compressor import Composed, Compressor
from tightwire.algebra.memory import Memory
from tightwire.codecs.passes import offer
from tightwire.kernels.cpu_bits import cpu_passes
from tightwire.kernels.cpu_topk import fused_topk
from tightwire.kernels.gpu_bits import gpu_passes
from tightwire.kernels.gpu_topk import fused_topk_gpu

Maker = Callable[[Memory, Codec, torch.device], Compressor | None]
_makers: list[Maker] = []
offer(cpu_passes)
offer(gpu_passes)


def register(maker: Maker) -> None:
    """Offer a kernel; the last one registered is asked first."""
    _makers.insert(0, maker)


def unregister(maker: Maker) -> None:
    """Withdraw a kernel."""
    _makers.remove(maker)


def find(memory: Memory, codec: Codec, device: torch.device) -> Compressor:
    """The fused compressor for this pair on this device, registered ones first, else the composed one."""
    for maker in (*_makers, fused_topk, fused_topk_gpu):
        made = maker(memory, codec, device)
        if made is not None:
            return made
    return Composed(memory, codec)
