"""A step of training that is launched once for all its kernels: recorded as a CUDA graph, and replayed.

    the first steps      as they stand, on a stream of their own: memory of the optimizer is made, libraries choose
    then                 recorded; nothing is computed
    from there on        batch's places ← new ones;  replay

A small network's step is a few hundred kernels that each take less time than their launch. What is recorded reads and
writes the same memory every time, so batches come in through one tensor of places, rates through a tensor, and masks
are changed in place. A step that cannot be recorded (it waits for the host, say) goes on as it stands, with a notice.
"""

from __future__ import annotations

import warnings
from typing import Protocol

import torch
from torch import Tensor

_BEFORE = 4  # steps as they stand


class Step(Protocol):
    """One step of training on the samples at some places."""

    random: torch.Generator

    def __call__(self, place_B: Tensor) -> None:
        """Take it."""


class Replay:
    """A step on a CUDA device, recorded when it has been taken a few times."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._taken = 0
        self._place_B: Tensor | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._side: torch.cuda.Stream | None = None
        self._refused = False

    @property
    def recorded(self) -> bool:
        """Whether steps are replayed by now."""
        return self._graph is not None

    def __call__(self, place_B: Tensor) -> None:
        """Take a step; all batches are of one size."""
        if self._place_B is None:
            self._place_B = place_B.clone()
        self._place_B.copy_(place_B)
        if self._graph is None and self._taken >= _BEFORE and not self._refused:
            self._record(self._place_B)
        if self._graph is None:
            self._aside(self._place_B)
        else:
            self._graph.replay()
        self._taken += 1

    def _aside(self, place_B: Tensor) -> None:
        """As it stands, but not on the default stream, to which gradients would stay bound.

        On the same stream every time: memory is cached stream by stream.
        """
        side = self._side = self._side or torch.cuda.Stream(place_B.device)
        side.wait_stream(torch.cuda.current_stream(place_B.device))
        with torch.cuda.stream(side):
            self._step(place_B)
        torch.cuda.current_stream(place_B.device).wait_stream(side)

    def _record(self, place_B: Tensor) -> None:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._step.random)
        before, stream = self._step.random.get_state(), torch.cuda.current_stream(place_B.device)
        try:
            with torch.cuda.device(place_B.device), torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._step(place_B)
        except RuntimeError as error:
            self._refused = True
            torch.cuda.set_stream(stream)  # where recording broke off, its stream is still the current one
            self._step.random = torch.Generator(place_B.device)
            self._step.random.set_state(before)
            first = str(error).strip().splitlines()[0]
            warnings.warn(
                f"a training step cannot be recorded ({first}), so its kernels are launched one by one, which is "
                "slower; a model whose forward pass waits for no value on the host can be recorded",
                stacklevel=2,
            )
            return
        self._graph = graph
