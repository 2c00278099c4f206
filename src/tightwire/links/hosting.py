"""Machines in the processes of a world: each is kept by one rank, and found by all others through the store.

    rank 1 (keeps "shard")   make ─▶ desk ─▶ Flight ─▶ store: "shard" is at …, and this opens it
    rank 0, 2, 3             ask ─▶ where is "shard"? (once) ─▶ call
    rank 1                   ask ─▶ its own desk, no socket

A rank that is done keeps serving until everybody who came to it has left. Where there are servers that stand alone, the
same rank describes its machine to one of them instead, and asks it like everybody else (`links.abroad`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from tightwire.algebra.errors import JoinError, PeerTimeout
from tightwire.algebra.link import Carried, Form, Machine, Way
from tightwire.links.abroad import Abroad, merged
from tightwire.links.access import Access
from tightwire.links.desk import Desk, not_counted
from tightwire.links.door import embedded_door

if TYPE_CHECKING:  # Arrow is loaded only where there is a server
    from tightwire.links.flight import Place
    from tightwire.links.flight_client import Caller
    from tightwire.links.service import Service


ALONE = Access()


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


class Away(Protocol):
    """One rank's way to machines that other processes keep (`links.abroad.Abroad`)."""

    carried: Carried

    def host(self, name: str, make: Callable[[], Machine], *, here: bool) -> None:
        """Have a machine kept; the rank that is ``here`` makes it."""
        ...

    def ask(self, name: str, event: Any, timeout_s: float) -> Any:
        """Ask a machine."""
        ...

    def reports(self) -> list[dict[str, Any]]:
        """What each server that was used tells of this run."""
        ...

    def close(self, *, abandon: bool) -> None:
        """Let go of everything."""
        ...


class Hosting:
    """One rank's machines, and its way to those of others on so many ``hosts``."""

    def __init__(
        self,
        rank: int,
        store: Store,
        room: str,
        form: Form | None,
        *,
        access: Access = ALONE,
        hosts: int = 1,
        away: Away | None = None,
    ) -> None:
        self._rank = rank
        self._access = access
        self._hosts = hosts
        self._store = store
        self._room = room
        self._form = form
        self._keepers: dict[str, int] = {}
        self._service: Service | None = None
        self._callers: dict[int, Caller] = {}
        self._found: set[str] = set()
        self._abroad: Away | None = away
        if away is None and access.servers:
            self._abroad = Abroad(rank, store, room, form, access)
        self.ways: dict[str, Way] = {}  # machines that are not where the store says, but found by somebody else
        self.carried: Carried = not_counted

    def host(self, name: str, make: Callable[[], Machine], *, on: int) -> None:
        """Remember who keeps a machine; make it if that is this rank."""
        if self._form is None:
            raise JoinError("this link was made without a form for events, so it carries no parameter server")
        again = name in self._keepers
        self._keepers[name] = on
        if self._abroad is not None:
            self._abroad.carried = self._count
            self._abroad.host(name, make, here=on == self._rank)
            return
        if on == self._rank and not again:
            place = self._served().add(Desk(name, make()))
            self._store.set(self._key(name), place.write())

    def ask(self, name: str, event: Any, timeout_s: float) -> Any:
        """Ask a machine, wherever it is."""
        if name in self.ways:
            return self.ways[name].ask(name, event, timeout_s)
        keeper = self._keepers[name]
        if self._abroad is not None:
            return self._abroad.ask(name, event, timeout_s)
        if keeper == self._rank:
            return self._served().desks[name].ask(self._rank, event, timeout_s)
        return self._caller(name, keeper, timeout_s).ask(name, event, timeout_s)

    def afar(self, name: str) -> bool:
        """Whether another process keeps it."""
        return name in self.ways or self._abroad is not None or self._keepers[name] != self._rank

    def close(self, *, abandon: bool, timeout_s: float) -> None:
        """Say goodbye where this rank came; serve until all others have; ``abandon`` drops everything."""
        for caller in self._callers.values():
            caller.drop() if abandon else caller.leave()
        self._callers = {}
        if self._abroad is not None:
            self._abroad.close(abandon=abandon)
        if self._service is None:
            return
        late = [] if abandon else self._service.wait_for_goodbyes(timeout_s)
        self._service.close()
        self._service = None
        if late:
            raise PeerTimeout(
                f"rank {self._rank} served for {timeout_s:g} s after its own end, and rank {late[0]} had not left"
            )

    def faults(self) -> dict[str, Any]:
        """What was refused, and who was slow or silent, at the servers that this rank answers for."""
        reports = [] if self._service is None else [self._service.report("")]
        if self._abroad is not None and self._rank == 0:
            reports += self._abroad.reports()
        return merged(reports)

    def _served(self) -> Service:
        if self._service is None:
            from tightwire.links.service import Service  # noqa: PLC0415 -- loads Arrow

            assert self._form is not None
            self._service = Service(self._form, embedded_door(self._access, machines=self._hosts))
            self._service.carried = self._count
            self._service.news = _log
        return self._service

    def _caller(self, name: str, keeper: int, timeout_s: float) -> Caller:
        if name not in self._found:
            self._look_up(name, keeper, timeout_s)
        return self._callers[keeper]

    def _look_up(self, name: str, keeper: int, timeout_s: float) -> None:
        from tightwire.links.flight import Place  # noqa: PLC0415 -- loads Arrow

        try:
            self._store.wait([self._key(name)], timedelta(seconds=timeout_s))
        except RuntimeError:
            raise PeerTimeout(
                f"rank {self._rank} waited {timeout_s:g} s for rank {keeper} to open {name} (exchange_timeout_s)"
            ) from None
        if keeper not in self._callers:
            place = Place.read(self._store.get(self._key(name)).decode())
            self._callers[keeper] = self._connect(place, keeper, timeout_s)
        self._found.add(name)

    def _connect(self, place: Place, keeper: int, timeout_s: float) -> Caller:
        """Come to a server, with what the rendezvous said opens it, else with keys of one's own."""
        from tightwire.links.flight_client import Caller  # noqa: PLC0415

        assert self._form is not None
        identity = None
        if not place.token:
            token = self._access.token()
            place = replace(place, token=token.secret if token else "", authority=self._access.authority().decode())
            identity = self._access.identity()
        caller = Caller(place, host=keeper, me=self._rank, form=self._form, identity=identity)
        caller.carried = self._count
        caller.come(timeout_s)
        return caller

    def _count(self, name: str, event: Any, tx: int, rx: int) -> None:
        self.carried(name, event, tx, rx)

    def _key(self, name: str) -> str:
        return f"{self._room}/machine/{name}"


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # into the log of the worker that keeps the server
