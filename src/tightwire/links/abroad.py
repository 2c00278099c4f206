"""Machines at servers that stand alone: one rank describes each, all ask.

    rank 1 (keeps "shard")   make ─▶ describe ─▶ open at server 0 ─▶ store: "shard" is open
    all ranks                ask ─▶ is "shard" open? (once) ─▶ call server 0

Machines are dealt to the servers in turn, in the order in which all ranks name them. Every attempt of a run meets in a
room of its own, whose name its first rank draws.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tightwire.algebra.errors import PeerTimeout
from tightwire.algebra.link import Carried, Form, Machine
from tightwire.links.access import Access
from tightwire.links.desk import not_counted

if TYPE_CHECKING:  # Arrow is loaded only where there is a server
    from tightwire.links.flight_client import Caller
    from tightwire.links.hosting import Store

_COME_S = 30.0
_REPORT_S = 5.0


class Abroad:
    """One rank's way to servers that stand alone."""

    def __init__(self, rank: int, store: Store, room: str, form: Form | None, access: Access) -> None:
        self._rank = rank
        self._store = store
        self._meeting = room  # where ranks tell each other; the server's room has a name of its own
        self._room: str | None = None
        self._form = form
        self._access = access
        self._where: dict[str, int] = {}
        self._open: set[str] = set()
        self._callers: dict[int, Caller] = {}
        self.carried: Carried = not_counted

    def host(self, name: str, make: Callable[[], Machine], *, here: bool) -> None:
        """Deal a machine to a server; describe it there if that falls to this rank."""
        if name in self._where:
            return
        self._where[name] = len(self._where) % len(self._access.servers)
        if self._rank == 0:
            self._room_name()  # others may wait for it before they open anything
        if here:
            self._caller(self._where[name]).open(name, make(), _COME_S)
            self._store.set(self._key(name), "open")
            self._open.add(name)

    def ask(self, name: str, event: Any, timeout_s: float) -> Any:
        """Ask a machine, once it is open."""
        if name not in self._open:
            self._wait(self._key(name), f"{name} to be opened", timeout_s)
            self._open.add(name)
        caller = self._caller(self._where[name])
        return caller.ask(f"{self._room_name()}/{name}", event, timeout_s)

    def reports(self) -> list[dict[str, Any]]:
        """What each server that was used tells of this run."""
        return [caller.status(_REPORT_S) for caller in self._callers.values()]

    def close(self, *, abandon: bool) -> None:
        """Say goodbye, or just let go."""
        for caller in self._callers.values():
            caller.drop() if abandon else caller.leave()
        self._callers = {}

    def _caller(self, number: int) -> Caller:
        from tightwire.links.flight import Place  # noqa: PLC0415 -- loads Arrow
        from tightwire.links.flight_client import Caller  # noqa: PLC0415

        if number not in self._callers:
            assert self._form is not None
            token, where = self._access.token(), self._access.servers[number]
            place = Place(where, token.secret if token else "", self._access.authority().decode())
            caller = Caller(
                place, host=where, me=self._rank, form=self._form, identity=self._access.identity(),
                room=self._room_name(),
            )  # fmt: skip
            caller.carried = lambda name, event, tx, rx: self.carried(name.partition("/")[2], event, tx, rx)
            caller.come(_COME_S)
            self._callers[number] = caller
        return self._callers[number]

    def _room_name(self) -> str:
        if self._room is None:
            key = f"{self._meeting}/room"
            if self._rank == 0:
                self._store.set(key, secrets.token_hex(8))
            self._wait(key, "rank 0 to name a room", _COME_S)
            self._room = self._store.get(key).decode()
        return self._room

    def _wait(self, key: str, what: str, timeout_s: float) -> None:
        try:
            self._store.wait([key], timedelta(seconds=timeout_s))
        except RuntimeError:
            raise PeerTimeout(
                f"rank {self._rank} waited {timeout_s:g} s for {what} (exchange_timeout_s)"
            ) from None  # fmt: skip

    def _key(self, name: str) -> str:
        return f"{self._meeting}/machine/{name}"


def merged(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What servers refused, by reason, and which workers were slow or silent; of all together.

    >>> merged([{"refused": {"token": 2}, "noticed": {"slow": [1]}}, {"refused": {"token": 1}}])
    {'refused': {'token': 3}, 'slow': [1]}
    """
    refused: dict[str, int] = {}
    unwell: dict[str, set[int]] = {}
    for report in reports:
        for reason, count in report.get("refused", {}).items():
            refused[reason] = refused.get(reason, 0) + count
        for state, ranks in report.get("noticed", {}).items():
            unwell.setdefault(state, set()).update(ranks)
    return {**({"refused": refused} if refused else {}), **{state: sorted(ranks) for state, ranks in unwell.items()}}
