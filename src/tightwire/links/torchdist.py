"""Processes joined by `torch.distributed`: gloo on CPUs (and beside GPUs), NCCL between GPUs.

Two process groups keep two orders apart: native collectives are launched by the thread of the backward pass, everything
else by one comm thread that runs jobs in the order they were submitted. Within each group all ranks launch alike.

Machines that workers ask (parameter servers) are kept in these same processes (`links.hosting`).

When a wait is over its time, the ranks that are still alive tell each other so through the store, and the error names
those that did not: in a ring, the rank one waits for is rarely the one that is stuck.
"""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tightwire.algebra.errors import PeerLost, PeerTimeout
from tightwire.algebra.link import Carried, Form, Machine, Pending, Port
from tightwire.algebra.world import World
from tightwire.links.access import Access
from tightwire.links.beside import Beside
from tightwire.links.hosting import Away, Hosting, Store
from tightwire.links.jobs import Jobs
from tightwire.links.meeting import Connections, meet
from tightwire.links.pipes import Pipes

_ROLL_CALL_S = 3.0  # how long the living wait for each other before they name the missing
_ROLL_CALL_EVERY_S = 0.1
_GOODBYES_S = 600.0  # how long a rank that is done serves others that are not
MakeAway = Callable[[int, Store, str, Access], Away]
_MEMORY = "/dev/shm"  # files here never touch a disk


class TorchDistLink:
    """One process of a `torch.distributed` world; link and port at once."""

    def __init__(
        self,
        world: World,
        everybody: dist.ProcessGroup,
        transfers: dist.ProcessGroup,
        hosting: Hosting,
        room: str,
        connections: Connections | None = None,
    ) -> None:
        self.world = world
        self._hosting = hosting
        self._room = room
        self.exact = dist.get_backend(transfers) == "nccl"
        self.wire_device = torch.device("cuda" if self.exact else "cpu")
        self._natives = {tuple(range(world.size)): everybody}
        self._transfers = transfers
        self._shared = 0
        self._jobs = Jobs()
        self._pipes = None if connections is None else Pipes(world.rank, connections, lambda: _silent(world))
        self._beside = None if self.exact else Beside(self, world, os.environ.get("TIGHTWIRE_MEMORY", "scarce"))

    @classmethod
    def connect(
        cls, form: Form | None = None, access: Access | None = None, chained: MakeAway | None = None
    ) -> TorchDistLink:
        """Join the process group that is open: learn who sits on which machine, make the two groups.

        ``form`` is that of what is said to machines and of their replies; without it none can be hosted. ``access``
        says what opens them; without it, the environment does. ``chained`` makes the way to machines that may
        move from server to server, and of which servers may keep several copies.
        """
        store = _store()
        room = f"tightwire/link/{store.add(f'tightwire/links/{dist.get_rank()}', 1)}"  # all ranks connect equally often
        world = World(dist.get_rank(), dist.get_world_size(), hosts=_hosts(room))
        access = access or Access.told_by(os.environ)
        move = bool(access.servers and access.copies)
        away = chained(world.rank, store, room, access) if chained is not None and move else None
        hosting = Hosting(world.rank, store, room, form, access=access, hosts=len(set(world.hosts)), away=away)
        connections = None if dist.get_backend() == "nccl" else meet(world, store, room)
        return cls(world, dist.new_group(), dist.new_group(), hosting, room, connections)

    @property
    def port(self) -> TorchDistLink:
        """The link itself."""
        return self

    @property
    def near(self) -> Port:
        """Memory between processes of one host, where messages lie in this machine's memory."""
        return self if self._beside is None else self._beside

    @property
    def framed(self) -> Port:
        """Sockets of our own, where all ranks reach each other."""
        return self if self._pipes is None else self._pipes

    def send(self, tensor: Tensor, to: int, tag: int) -> Pending:
        """Start sending."""
        what = f"rank {to} to take a message"
        return self._start(lambda: dist.isend(tensor, to, group=self._transfers, tag=tag), what)

    def receive(self, tensor: Tensor, source: int, tag: int) -> Pending:
        """Start receiving."""
        what = f"a message from rank {source}"
        return self._start(lambda: dist.irecv(tensor, source, group=self._transfers, tag=tag), what)

    def submit(self, job: Callable[[], None], *, first: Callable[[], None] | None = None) -> Pending:
        """Run a job on the comm thread, in order; what comes first, here."""
        return self._jobs.submit(job, first=first)

    def prepare(self, members: Sequence[int]) -> None:
        """Make a process group; every rank must call this in the same order, member or not."""
        if tuple(members) not in self._natives:
            self._natives[tuple(members)] = dist.new_group(list(members))

    def native(self, name: str, tensor: Tensor, members: Sequence[int]) -> Pending | None:
        """Start `torch.distributed`'s own all-reduce."""
        group = self._natives.get(tuple(members))
        if name != "all_reduce" or group is None:
            return None
        return self._start(lambda: dist.all_reduce(tensor, group=group, async_op=True), "an all-reduce of all ranks")

    def host(self, name: str, make: Callable[[], Machine], *, on: int) -> None:
        """Keep the machine in the process of rank ``on``."""
        self._hosting.host(name, make, on=on)

    def ask(self, name: str, event: Any, timeout_s: float) -> Any:
        """Over a socket, or directly if the machine is here."""
        return self._hosting.ask(name, event, timeout_s)

    def afar(self, name: str) -> bool:
        """Unless it is kept by this rank."""
        return self._hosting.afar(name)

    def count(self, name: str, amount: int) -> int:
        """A number in the store."""
        return int(_store().add(f"{self._room}/count/{name}", amount))

    def count_with(self, carried: Carried) -> bool:
        """Asking, and answering others."""
        self._hosting.carried = carried
        return True

    def faults(self) -> dict[str, Any]:
        """What servers refused, and who was not well."""
        return self._hosting.faults()

    def share(self, name: str, numel: int, dtype: torch.dtype) -> Tensor:
        """A file that lives in memory, mapped by every process; the last one to map it removes its name."""
        store = _store()
        self._shared += 1
        key = f"tightwire/shared/{self._shared}"
        if self.world.rank == 0:
            handle, path = tempfile.mkstemp(prefix="tightwire-", dir=_MEMORY if os.path.isdir(_MEMORY) else None)
            os.ftruncate(handle, max(1, numel) * dtype.itemsize)
            os.close(handle)
            store.set(key, path)
        path = store.get(key).decode()
        memory = torch.from_file(path, shared=True, size=max(1, numel), dtype=dtype)[:numel]
        if store.add(f"{key}/mapped", 1) == self.world.size:
            os.unlink(path)
        return memory

    def close(self, *, abandon: bool = False) -> None:
        """Serve until nobody asks any more, stop the comm thread and leave the groups."""
        self._hosting.close(abandon=abandon, timeout_s=_GOODBYES_S)
        self._jobs.close()
        if self._beside is not None:
            self._beside.close()
        if self._pipes is not None:
            self._pipes.close()
        for group in (*self._natives.values(), self._transfers):
            dist.destroy_process_group(group)

    def _start(self, begin: Callable[[], Any], what: str) -> Pending:
        try:
            return _Work(begin(), what, self.world)
        except RuntimeError as error:  # the connection is already known to be broken
            raise _lost(self.world, what, error) from None


@dataclass
class _Work:
    work: Any
    what: str
    world: World

    def wait(self, timeout_s: float) -> None:
        """Wait; name the silent ranks if the time is over."""
        try:
            self.work.wait(timedelta(seconds=timeout_s))
        except RuntimeError as error:
            if "timed out" not in str(error).lower():
                raise _lost(self.world, self.what, error) from None
            raise PeerTimeout(
                f"rank {self.world.rank} waited {timeout_s:g} s for {self.what}{_silent(self.world)} "
                "(exchange_timeout_s)"
            ) from None


def _lost(world: World, what: str, error: RuntimeError) -> PeerLost:
    reason = str(error).splitlines()[0]
    return PeerLost(f"rank {world.rank} lost its connection while waiting for {what}{_silent(world)}: {reason}")


def _silent(world: World) -> str:
    """Who does not answer, for the end of a sentence."""
    missing = _roll_call(world)
    if not missing:
        return ""
    return f"; no sign of life from rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"


def _store() -> Any:
    return dist.distributed_c10d._get_default_store()


def _hosts(room: str) -> tuple[int, ...]:
    """The machine of every rank, numbered in order of first appearance."""
    store = _store()
    store.set(f"{room}/host/{dist.get_rank()}", os.environ.get("TIGHTWIRE_HOST", socket.gethostname()))
    names = [store.get(f"{room}/host/{rank}") for rank in range(dist.get_world_size())]
    return tuple(names.index(name) for name in names)


def _roll_call(world: World) -> list[int]:
    """The ranks that do not answer now. Every rank whose wait failed answers; a stuck or dead one does not."""
    store = _store()
    key = f"tightwire/alive/{world.generation}"
    missing = [r for r in range(world.size) if r != world.rank]
    deadline = time.monotonic() + _ROLL_CALL_S
    try:
        store.set(f"{key}/{world.rank}", "1")
        while time.monotonic() < deadline and (missing or world.rank == 0):  # rank 0 keeps the store: it stays for all
            missing = [r for r in missing if not store.check([f"{key}/{r}"])]
            time.sleep(_ROLL_CALL_EVERY_S)
    except (RuntimeError, dist.DistError):
        return [0] if len(missing) == world.size - 1 else missing  # without the store nobody can be heard
    return missing
