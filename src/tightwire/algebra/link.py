"""What a link gives the runtime: point-to-point transfers, an order to run jobs in, and a server to ask.

Two links implement it: `links.loop` (P workers in one process, deterministic) and `links.torchdist`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from tightwire.algebra.world import World


class Pending(Protocol):
    """A transfer under way, or a job in the queue."""

    def wait(self, timeout_s: float) -> None:
        """Return when it is done; raise `PeerTimeout` or `PeerLost`, naming the peer."""
        ...


class Port(Protocol):
    """Point-to-point transfers. Ranks are ranks of the whole world."""

    @property
    def exact(self) -> bool:
        """True if a receive must be posted with the very size of the message (NCCL)."""
        ...

    def send(self, tensor: Tensor, to: int, tag: int) -> Pending:
        """Start sending; ``tensor`` must stay as it is until the wait returns."""
        ...

    def receive(self, tensor: Tensor, source: int, tag: int) -> Pending:
        """Start receiving into ``tensor``; a shorter message fills its beginning."""
        ...


class Machine(Protocol):
    """A state machine without I/O: event in, replies out. Links host it, tests and simulators drive it."""

    def handle(self, event: Any) -> list[tuple[int, Any]]:
        """React to an event with replies, each to one worker."""
        ...


@runtime_checkable
class Awaits(Protocol):
    """A machine that knows for whom those who ask it wait."""

    def awaited(self) -> tuple[int, ...]:
        """The workers that take part and have not come."""
        ...


class Form(Protocol):
    """How what is said to a machine, and what it replies, becomes plain data and tensors, and itself again."""

    def pack(self, message: Any) -> tuple[Any, list[Tensor]]:
        """Data that JSON can hold, and the tensors that it names by their place in the list."""
        ...

    def unpack(self, data: Any, tensors: Sequence[Tensor]) -> Any:
        """The reverse; raises `PayloadError` for what no `pack` made."""
        ...


Carried = Callable[[str, Any, int, int], None]
"""Called with a machine's name, what it was asked, and the bytes that this process sent and received for it."""


@runtime_checkable
class Asked(Protocol):
    """Where a machine is asked from several threads (`links.desk.Desk`)."""

    @property
    def name(self) -> str:
        """The machine's."""
        ...

    @property
    def lasts(self) -> bool:
        """True if it stays when its last worker has left: somebody else says when it is over."""
        ...

    def ask(self, rank: int, event: Any, timeout_s: float, left: Callable[[], bool] = ...) -> Any:
        """The machine's reply to this worker, unless the worker has ``left``."""
        ...

    def mark_gone(self, rank: int) -> None:
        """A worker's process has ended without a goodbye."""
        ...

    def close(self) -> None:
        """Nobody is answered any more."""
        ...


@runtime_checkable
class Describes(Protocol):
    """A form that can also tell a whole machine, so that a process without a model can keep it."""

    def describe(self, machine: Machine) -> tuple[Any, list[Tensor]]:
        """Data and tensors."""
        ...

    def build(self, data: Any, tensors: Sequence[Tensor]) -> Machine:
        """The machine again; raises `PayloadError` for what is none."""
        ...

    def reads(self, event: Any) -> bool:
        """Whether an event changes nothing."""
        ...


class Way(Protocol):
    """Another way to a machine than one server: one that finds it where it is now."""

    def ask(self, name: str, event: Any, timeout_s: float) -> Any:
        """The machine's reply to this worker."""
        ...


class Link(Protocol):
    """One worker's connection to the others."""

    @property
    def world(self) -> World:
        """Who is connected."""
        ...

    @property
    def port(self) -> Port:
        """Point-to-point transfers."""
        ...

    @property
    def near(self) -> Port:
        """The same for messages whose very size both sides know, by a shorter way where there is one."""
        ...

    @property
    def framed(self) -> Port:
        """The same for small messages that begin with their length and belong to jobs, by a shorter way likewise."""
        ...

    @property
    def wire_device(self) -> torch.device | None:
        """Where tensors must lie to be sent; None: anywhere."""
        ...

    def submit(self, job: Callable[[], None], *, first: Callable[[], None] | None = None) -> Pending:
        """Run ``job`` after all jobs submitted before it, beside the caller where the link can.

        ``first`` is a beginning after which the job only waits for messages that are on their way and sends none. Where
        the link can, the caller does it at once, and the next job may begin before this one has ended.
        """
        ...

    def prepare(self, members: Sequence[int]) -> None:
        """Make native collectives possible among ``members``. All ranks call this, in the same order."""
        ...

    def native(self, name: str, tensor: Tensor, members: Sequence[int]) -> Pending | None:
        """Start a collective of `torch.distributed` in place, or None where the link has none of that name."""
        ...

    def host(self, name: str, make: Callable[[], Machine], *, on: int) -> None:
        """Have a machine that all workers can ask; rank ``on`` keeps it where there are several processes."""
        ...

    def ask(self, name: str, event: Any, timeout_s: float) -> Any:
        """Send an event to a machine and wait for the reply to this worker."""
        ...

    def afar(self, name: str) -> bool:
        """True if what a machine is asked leaves this process."""
        ...

    def count_with(self, carried: Carried) -> bool:
        """Have everything counted that crosses a socket for machines, on both sides; False if there are no sockets."""
        ...

    def faults(self) -> dict[str, Any]:
        """What the machines that this process keeps were spared: refusals by reason, workers slow or silent."""
        ...

    def share(self, name: str, numel: int, dtype: torch.dtype) -> Tensor:
        """A flat tensor in memory that all workers of this machine see. All of them call this, in the same order."""
        ...

    def count(self, name: str, amount: int) -> int:
        """Add to a number that all workers share and return what it is then; nobody is waited for."""
        ...

    def close(self, *, abandon: bool = False) -> None:
        """Let go of everything the link opened, once nobody asks its machines; ``abandon`` does not wait for that."""
        ...
