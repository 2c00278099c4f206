"""Random numbers by place: what an element draws depends on the step, its tensor and its position in it alone.

    z = start + gamma·position  (mod 2³²);   z ← mix(z)          start and gamma from `At.key`

Wellons: Prospecting for Hash Functions, 2018 (the multipliers of ``mix``, which maps 32 bits one to one).
Cutting a bucket, or a tensor between rows, leaves every draw as it was, and a GPU draws what a CPU draws. A generator
of torch, whose numbers come in the order they are asked for, could promise neither; it is not faster.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tightwire.algebra.tensors import Spec
from tightwire.algebra.world import At
from tightwire.codecs.stretches import Stretches, stretches

_MASK = (1 << 32) - 1
_BLOCK = 1 << 16  # what stays in a cache
_DEVICE_BLOCK = 1 << 24  # an accelerator wants few launches
_MIX = ((16, 0x7FEB352D), (15, 0x846CA68B))


def uniform(spec: Spec, at: At, device: torch.device) -> Tensor:
    """This rank's numbers in [0, 1) for all elements of a layout: multiples of 2⁻²⁴."""
    found = stretches(spec, device, "tensor")
    if found is not None:
        word_N = _counted_at_once(spec, at, found)
        return ((_mix_(word_N) >> 8) & 0xFFFFFF).float().mul_(2.0**-24)
    word_N = torch.empty(spec.numel, dtype=torch.int32, device=device)
    for s in spec.segments:
        piece = word_N[s.offset : s.offset + s.numel]
        _count_(piece, at.key(shared=False, salt=s.name), s.first_row * s.row_numel)
    return ((_mix_(word_N) >> 8) & 0xFFFFFF).float().mul_(2.0**-24)


def seeds(spec: Spec, at: At) -> list[tuple[int, int]]:
    """Start and gamma of each tensor of a layout, as int32: what `uniform` counts with, for those who count themselves.

    >>> (start, gamma), = seeds(Spec.pack([("w", (2,))]), At())
    >>> word = words(2, At().key(shared=False, salt="w"), torch.device("cpu"))
    >>> _mix_(torch.tensor([start, start + gamma]).to(torch.int32)).equal(word)
    True
    """
    made = []
    for s in spec.segments:
        key = at.key(shared=False, salt=s.name)
        gamma = _signed(key | 1)
        made.append((_signed((key >> 32) + gamma * s.first_row * s.row_numel), gamma))
    return made


def _counted_at_once(spec: Spec, at: At, found: Stretches) -> Tensor:
    """Start + gamma·place of every element; places are counted through all tensors, so starts go back by theirs."""
    begun = [(_signed(start - gamma * s.offset), gamma)
             for s, (start, gamma) in zip(spec.segments, seeds(spec, at), strict=True)]  # fmt: skip
    start_N, gamma_N = found.spread(torch.tensor(begun, dtype=torch.int32).to(found.edge_S1.device)).unbind(1)
    return torch.arange(spec.numel, dtype=torch.int32, device=start_N.device).mul_(gamma_N).add_(start_N)


def words(count: int, key: int, device: torch.device, *, first: int = 0) -> Tensor:
    """``count`` words of 32 random bits, for the places from ``first`` on.

    >>> words(5, 7, torch.device("cpu"))[3:].equal(words(2, 7, torch.device("cpu"), first=3))
    True
    """
    word_N = torch.empty(count, dtype=torch.int32, device=device)
    _count_(word_N, key, first)
    return _mix_(word_N)


def _count_(word_N: Tensor, key: int, first: int) -> None:
    """Start + gamma·place."""
    gamma, start = _signed(key | 1), key >> 32
    for lo in range(0, word_N.numel(), _DEVICE_BLOCK):
        piece = word_N[lo : lo + _DEVICE_BLOCK]
        torch.arange(piece.numel(), out=piece)
        piece.mul_(gamma).add_(_signed(start + gamma * (first + lo)))


def _mix_(word_N: Tensor) -> Tensor:
    block = _BLOCK if word_N.device.type == "cpu" else _DEVICE_BLOCK
    for piece in word_N.split(block) if word_N.numel() else ():
        for shift, factor in _MIX:
            piece.bitwise_xor_(_right(piece, shift)).mul_(_signed(factor))
        piece.bitwise_xor_(_right(piece, 16))
    return word_N


def _right(word_N: Tensor, shift: int) -> Tensor:
    """A shift that brings zeros in from the left."""
    return (word_N >> shift) & (_MASK >> shift)


def _signed(word: int) -> int:
    """32 bits as the int32 that they are."""
    return ((word + (1 << 31)) & _MASK) - (1 << 31)
