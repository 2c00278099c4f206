"""Gradients as they become ready: a bucket is filled when all of its are, and sent while backward still runs.

    backward:   grad of fc3 ready ─▶ hook ─▶ bucket 0 complete ─▶ launched
                grad of fc2 ready ─▶ hook ─▶ bucket 1 …           (exchange of bucket 0 under way)
    step():     what is missing is zero; the rest is launched; wait, in the same order

Buckets are launched strictly in order on every rank, whatever order gradients come in, or collectives would not match.
The first step of a phase launches nothing early: it shows which gradients exist, and whether the script clips.

A gradient that is read where it lies is held until the next one has come. Let go together, tens of megabytes at a time,
they would leave the heap, and malloc would ask for them again in the next backward pass: a fault for every page.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from tightwire.algebra.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tightwire.run.lane import Lane
    from tightwire.run.parcel import Parcel

Launch = Callable[["Lane", "Parcel"], None]


class Launcher:
    """Collects gradients of the lanes that send them, and launches their parcels in order."""

    def __init__(
        self, lanes: Sequence[Lane], launch: Launch, order: Sequence[str], batch_weight: Callable[[], float]
    ) -> None:
        place = {name: index for index, name in enumerate(order)}
        early = [(lane, parcel) for lane in lanes if lane.early for parcel in lane.parcels]
        # A bucket is complete when its earliest-registered tensor is, because backward runs from last to first.
        self._queue = sorted(early, key=lambda entry: -min(place[name] for name in entry[1].tensors))
        self._launch = launch
        self._where = {
            tensor: (index, name)
            for index, (_, parcel) in enumerate(self._queue)
            for name, tensor in parcel.tensors.items()
        }
        self._missing: list[set[str]] = []
        self._held: dict[nn.Parameter, Tensor] = {}  # never read
        self._next = 0
        self._batch_weight = batch_weight
        self.overlap = False
        self._paused = 0
        self.reset()
        self._handles: list[RemovableHandle] = [
            tensor.register_post_accumulate_grad_hook(self._ready) for tensor in self._where
        ]

    def reset(self) -> None:
        """A new step begins."""
        self._missing = [set(parcel.tensors) for _, parcel in self._queue]
        self._next = 0

    def remove(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()
        self._held.clear()

    def pause(self) -> AbstractContextManager[None]:
        """Gradients that come inside stay where autograd puts them."""

        @contextmanager
        def paused() -> Iterator[None]:
            self._paused += 1
            try:
                yield
            finally:
                self._paused -= 1

        return paused()

    @property
    def launched(self) -> bool:
        """True if something of this step is on its way."""
        return self._next > 0

    def unseen(self) -> set[str]:
        """Tensors of which no gradient exists."""
        return {name for tensor, (_, name) in self._where.items() if tensor.grad is None}

    def finish(self) -> Iterator[tuple[Lane, Parcel]]:
        """Launch everything that is not on its way yet, as if what is missing had come; then every parcel, in order."""
        for missing in self._missing[self._next :]:
            missing.clear()
        self._launch_complete()
        assert self._next == len(self._queue)
        return iter(self._queue)

    def _ready(self, tensor: nn.Parameter) -> None:
        """Called by autograd when a gradient is complete."""
        if self._paused or not self.overlap:
            return
        index, name = self._where[tensor]
        if index < self._next:
            raise UsageError(
                f"the gradient of {name!r} came twice in one step, and the first is already on its way; put all but "
                "the last backward() of a step inside `with wire.accumulate():`"
            )
        self._missing[index].discard(name)
        self._launch_complete()

    @torch.no_grad()
    def _collect(self, lane: Lane, parcel: Parcel) -> None:
        """The gradients of a parcel into its bucket; zeros where there is none."""
        factor = lane.scale * self._batch_weight()
        into: list[Tensor] = []
        gradients: list[Tensor] = []
        for name, tensor in parcel.tensors.items():
            gradient = tensor.grad
            if gradient is None:
                parcel.x[name].zero_()
                continue
            if gradient.layout != torch.strided:
                gradient = gradient.to_dense()
            if lane.takes_loose and gradient.dtype == parcel.x.spec.dtype and gradient.is_contiguous():
                parcel.x.loose[name] = (gradient, factor)
                if gradient.device.type == "cpu":
                    self._held[tensor] = gradient
            else:
                into.append(parcel.x[name])
                gradients.append(gradient)
        _scaled(gradients, factor, into)

    def _launch_complete(self) -> None:
        while self._next < len(self._queue) and not self._missing[self._next]:
            lane, parcel = self._queue[self._next]
            self._collect(lane, parcel)
            self._next += 1
            self._launch(lane, parcel)


def _scaled(gradients: list[Tensor], factor: float, into: list[Tensor]) -> None:
    """Into ← factor·gradient: on a GPU all in a few launches, else one by one, each read and written once."""
    if gradients and gradients[0].device.type == "cuda":
        torch._foreach_copy_(into, gradients)
        torch._foreach_mul_(into, factor)
        return
    for gradient, place in zip(gradients, into, strict=True):
        torch.mul(gradient, factor, out=place)
