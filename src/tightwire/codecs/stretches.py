"""Figures of many stretches of one tensor at once: sums, largest values, and a value each laid out again.

    ├─ row ─┤├─ row ─┤├─ row ─┤├────── bias ──────┤├ … ┤      rows, tensors, or so many elements of a layout

A network has many small tensors. Asking one after another for its norm costs a GPU a launch each, which takes longer
than the sum itself; all together are one launch. A CPU is asked one by one: there a launch is a call.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from tightwire.algebra.tensors import Segment, Spec

Per = Literal["row", "tensor"] | int
DEVICES = {"cuda"}  # where launches cost more than sums
_LONG = 1 << 20  # elements, beyond which a stretch keeps a device busy by itself


@dataclass(frozen=True, eq=False)
class Stretches:
    """Where they lie, on the device of the tensor: ``edge_S1`` are the beginnings and the end."""

    numel: int
    edge_S1: Tensor  # noqa: N815
    length_S: Tensor  # noqa: N815

    def sums(self, x_N: Tensor) -> Tensor:
        """The sum of each; 0 where it is empty."""
        return torch.segment_reduce(x_N, "sum", offsets=self.edge_S1, unsafe=True, initial=0)

    def largest(self, x_N: Tensor) -> Tensor:
        """The largest of each, 0 at least."""
        return torch.segment_reduce(x_N, "max", offsets=self.edge_S1, unsafe=True, initial=0)

    def spread(self, value_S: Tensor) -> Tensor:
        """A value for each, as wide as its elements."""
        return torch.repeat_interleave(value_S, self.length_S, dim=0, output_size=self.numel)


def stretches(spec: Spec, device: torch.device, per: Per) -> Stretches | None:
    """Those of a layout, made once; None where they are better asked one by one.

    >>> stretches(Spec.pack([("w", (3, 2))]), torch.device("cpu"), "row") is None
    True
    """
    return _made(spec, device, per) if device.type in DEVICES else None


@lru_cache(maxsize=256)
def _made(spec: Spec, device: torch.device, per: Per) -> Stretches | None:
    length = [part for s in spec.segments for part in lengths(s, per)]
    if not length or max(length) > _LONG:
        return None
    length_S = torch.tensor(length)
    edge_S1 = torch.cat([length_S.new_zeros(1), length_S.cumsum(0)])
    return Stretches(spec.numel, edge_S1.to(device), length_S.to(device))


def counted(s: Segment, per: Per) -> tuple[int, int]:
    """How many stretches a tensor has, and how long each is; the last may be shorter.

    >>> s = Segment("w", 0, (2, 5)); counted(s, "row"), counted(s, "tensor"), counted(s, 4)
    ((2, 5), (1, 10), (3, 4))
    """
    if per == "row":
        return s.rows, s.row_numel
    return (1, s.numel) if per == "tensor" else (-(-s.numel // per), per)


def lengths(s: Segment, per: Per) -> list[int]:
    """How long each stretch of a tensor is."""
    count, length = counted(s, per)
    return [min(length, s.numel - begin * length) for begin in range(count)]
