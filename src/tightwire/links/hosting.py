"""Machines in the processes of a world: each is kept by one rank, and found by all others through the store.

    rank 1 (keeps "shard")   make ─▶ desk ─▶ Flight on the loopback ─▶ store: "shard" is at …, with this token
    rank 0, 2, 3             ask ─▶ where is "shard"? (once) ─▶ call
    rank 1                   ask ─▶ its own desk, no socket

A rank that is done keeps serving until everybody who came to it has left.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from tightwire.algebra.errors import JoinError, PeerTimeout
from tightwire.algebra.link import Form, Machine
from tightwire.links.desk import Desk

if TYPE_CHECKING:  # Arrow is loaded only where there is a server
    from tightwire.links.flight_client import Caller
    from tightwire.links.flight_server import Service


class Store(Protocol):
    """What is needed of `torch.distributed`'s store."""

    def set(self, key: str, value: str) -> None:
        """Write."""
        ...

    def get(self, key: str) -> bytes:
        """Read."""
        ...

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        """Until keys are there."""
        ...


class Hosting:
    """One rank's machines, and its way to those of others."""

    def __init__(self, rank: int, store: Store, room: str, form: Form | None) -> None:
        self._rank = rank
        self._store = store
        self._room = room
        self._form = form
        self._keepers: dict[str, int] = {}
        self._service: Service | None = None
        self._callers: dict[int, Caller] = {}
        self._found: set[str] = set()

    def host(self, name: str, make: Callable[[], Machine], *, on: int) -> None:
        """Remember who keeps a machine; make it if that is this rank."""
        if self._form is None:
            raise JoinError("this link was made without a form for events, so it carries no parameter server")
        again = name in self._keepers
        self._keepers[name] = on
        if on == self._rank and not again:
            place = self._served().add(Desk(name, make()))
            self._store.set(self._key(name), place.write())

    def ask(self, name: str, event: Any, timeout_s: float) -> Any:
        """Ask a machine, wherever it is."""
        keeper = self._keepers[name]
        if keeper == self._rank:
            return self._served().desks[name].ask(self._rank, event, timeout_s)
        return self._caller(name, keeper, timeout_s).ask(name, event, timeout_s)

    def close(self, *, abandon: bool, timeout_s: float) -> None:
        """Say goodbye where this rank came; serve until all others have; ``abandon`` drops everything."""
        for caller in self._callers.values():
            caller.drop() if abandon else caller.leave()
        self._callers = {}
        if self._service is None:
            return
        late = [] if abandon else self._service.wait_for_goodbyes(timeout_s)
        self._service.close()
        self._service = None
        if late:
            raise PeerTimeout(
                f"rank {self._rank} served for {timeout_s:g} s after its own end, and rank {late[0]} had not left"
            )

    def _served(self) -> Service:
        if self._service is None:
            from tightwire.links.flight_server import Service  # noqa: PLC0415 -- loads Arrow

            assert self._form is not None
            self._service = Service(self._form)
        return self._service

    def _caller(self, name: str, keeper: int, timeout_s: float) -> Caller:
        if name not in self._found:
            self._look_up(name, keeper, timeout_s)
        return self._callers[keeper]

    def _look_up(self, name: str, keeper: int, timeout_s: float) -> None:
        from tightwire.links.flight import Place  # noqa: PLC0415 -- loads Arrow
        from tightwire.links.flight_client import Caller  # noqa: PLC0415

        try:
            self._store.wait([self._key(name)], timedelta(seconds=timeout_s))
        except RuntimeError:
            raise PeerTimeout(
                f"rank {self._rank} waited {timeout_s:g} s for rank {keeper} to open {name} (exchange_timeout_s)"
            ) from None
        if keeper not in self._callers:
            assert self._form is not None
            place = Place.read(self._store.get(self._key(name)).decode())
            caller = Caller(place, host=keeper, me=self._rank, form=self._form)
            caller.come(timeout_s)
            self._callers[keeper] = caller
        self._found.add(name)

    def _key(self, name: str) -> str:
        return f"{self._room}/machine/{name}"
