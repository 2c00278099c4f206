"""A stage of a split model: runs its cells of the timetable, one tick for each call of `wire.batch`.

    receive activation ─▶ forward ─▶ send activation          (minibatch τ−s)
    receive error ─▶ backward ─▶ send error                    (minibatch τ−2(n−1)+s)

Every rank iterates over the same data: the first stage uses the inputs, the last the targets. What was sent in one tick
is taken by the neighbour in the next, and is waited for in the one after that: sooner, two stages could wait for each
other to take what they sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tightwire.algebra.errors import UsageError
from tightwire.algebra.link import Pending
from tightwire.algebra.split import Split
from tightwire.run.transport import BACKWARD, FORWARD, Transport
from tightwire.splits.boundary import HEADER_INTS, header, shape_of
from tightwire.splits.versions import keep_versions

LossFn = Callable[[Tensor, Any], Tensor]
_MOST_BYTES = 1 << 34  # no activation is larger than this: a header that says so is damaged


@dataclass
class Flight:
    """A minibatch between its forward and its backward pass at this stage."""

    given: Tensor
    result: Tensor
    version: int


@dataclass(frozen=True)
class Passed:
    """One backward pass, and how many own updates were made before it and before its forward pass."""

    minibatch: int
    forward_version: int
    backward_version: int


class Pipeline:
    """This worker's stage."""

    def __init__(self, stage: nn.Module, split: Split, transport: Transport, device: torch.device) -> None:
        self.stage = stage
        self.split = split
        self.trace: list[Passed] = []
        self._transport = transport
        self._device = device
        self._me = transport.link.world.rank
        self._last = self._me == split.stages - 1
        self._tick = 0
        self._fed = 0
        self._version = 0
        self._data: dict[int, tuple[Any, Any, LossFn]] = {}
        self._flights: dict[int, Flight] = {}
        self._sending: deque[tuple[int, Pending, Tensor]] = deque()

    def feed(self, x: Any, y: Any, loss_fn: LossFn) -> Tensor | None:
        """One tick with a new minibatch; the loss of the minibatch that reached the last stage, there."""
        self._data[self._fed] = (x, y, loss_fn)
        self._fed += 1
        return self._run_tick()

    @property
    def busy(self) -> bool:
        """True if minibatches are still between stages."""
        return self._tick < self._fed + 2 * (self.split.stages - 1) and self._fed > 0

    def drain(self) -> Tensor | None:
        """One tick without a new minibatch. After the last of them the timetable begins anew."""
        loss = self._run_tick()
        if not self.busy:
            self._land(before=self._tick)
            self._tick = self._fed = 0
        return loss

    def _run_tick(self) -> Tensor | None:
        work = self.split.work(self._me, self._tick)
        self._land(before=self._tick - 1)
        self._tick += 1
        loss = None
        if work.forward is not None and work.forward < self._fed:
            loss = self._forward(work.forward)
        if work.backward is not None and work.backward < self._fed:
            self._backward(work.backward)
        return loss

    def _forward(self, minibatch: int) -> Tensor | None:
        x, y, loss_fn = self._data.pop(minibatch)
        given = x if self._me == 0 else self._receive(self._me - 1, FORWARD).requires_grad_()
        with keep_versions(self.stage, self.split.versions):
            result = self.stage(given)
            if self._last:
                result = loss_fn(result, y)
        if not isinstance(result, Tensor):
            raise UsageError(f"stage {self._me} gave {type(result).__name__}; stages pass on one tensor")
        self._flights[minibatch] = Flight(given, result, self._version)
        if self._last:
            return result.detach()
        self._send(result.detach(), self._me + 1, FORWARD)
        return None

    def _backward(self, minibatch: int) -> None:
        flight = self._flights.pop(minibatch)
        error = None if self._last else self._receive(self._me + 1, BACKWARD)
        flight.result.backward(error)
        self.trace.append(Passed(minibatch, flight.version, self._version))
        self._version += 1
        if self._me > 0:
            assert flight.given.grad is not None
            self._send(flight.given.grad, self._me - 1, BACKWARD)

    def _send(self, tensor: Tensor, to: int, tag: int) -> None:
        port, device = self._transport.link.port, self._transport.link.wire_device
        for message in (header(tensor), tensor.contiguous().reshape(-1)):
            on_wire = message if device is None else message.to(device)
            self._sending.append((self._tick - 1, port.send(on_wire, to, tag), on_wire))
            self._transport.ledger.moved("boundary", f"{self._me}-{to}", tx=on_wire.nbytes, rx=0, known="counted")
        self._transport.ledger.produced(tensor.nbytes)

    def _receive(self, source: int, tag: int) -> Tensor:
        port, device = self._transport.link.port, self._transport.link.wire_device
        head = torch.empty(HEADER_INTS, dtype=torch.int64, device=device)
        port.receive(head, source, tag).wait(self._transport.timeout_s)
        dtype, shape = shape_of(head, most_bytes=_MOST_BYTES)
        body = torch.empty(shape, dtype=dtype, device=device)
        port.receive(body.view(-1), source, tag).wait(self._transport.timeout_s)
        nbytes = head.nbytes + body.nbytes
        self._transport.ledger.moved("boundary", f"{source}-{self._me}", tx=0, rx=nbytes, known="counted")
        return body.to(self._device)

    def _land(self, before: int) -> None:
        """What was sent in ticks before ``before`` has left."""
        while self._sending and self._sending[0][0] < before:
            self._sending.popleft()[1].wait(self._transport.timeout_s)
