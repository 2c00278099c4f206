"""Shards that several servers may keep, seen from a worker: who opens them, who decides on views, how they are asked.

rank 0       views (`run.chain_lead`)
rank `on`    make ─▶ the first server's seat, with the machine
all ranks    ask ─▶ the head of the shard's chain, whoever that is by then (`run.failover`)
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from tightwire.algebra.errors import PeerTimeout, TightwireError
from tightwire.algebra.link import Carried, Machine
from tightwire.links.access import Access
from tightwire.links.courier import Calls
from tightwire.links.desk import not_counted
from tightwire.links.flight_client import Caller
from tightwire.links.hosting import Store
from tightwire.run.chain_host import place_of
from tightwire.run.chain_lead import Lead, give_seat, places_of
from tightwire.run.failover import Failover
from tightwire.server.chainform import ChainForm
from tightwire.server.once import Once, Request
from tightwire.server.replica import VIEWS

_CONNECT_S = 1.0
_COME_S = 30.0
_FOLLOW_EVERY_S = 3.0


class Chained:
    """One rank's way to them; `links.abroad.Away`."""

    def __init__(self, rank: int, store: Store, meeting: str, access: Access) -> None:
        self._rank = rank
        self._store = store
        self._meeting = meeting
        self._access = access
        self._names: list[str] = []
        self._open: set[str] = set()
        self._told: dict[str, str] = {}
        self._way: Failover | None = None
        self._views: Caller | None = None
        self._lead: Lead | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._following = threading.Thread(target=self._follow, name="following", daemon=True)
        self.carried: Carried = not_counted

    def host(self, name: str, make: Callable[[], Machine], *, here: bool) -> None:
        """Have a shard kept by a chain of servers; the rank that is ``here`` gives it to the first of them."""
        if name in self._names:
            return
        self._names.append(name)
        if self._rank == 0:
            self._leads().add(name)
        if here:
            servers = self._access.servers
            first = servers[(len(self._names) - 1) % len(servers)]
            copied = ChainForm().copy(Once(make()))
            give_seat(self._access, self._places(), self._read("room"), to=first, shard=name, copied=copied)
            self._store.set(self._key(f"machine/{name}"), "open")

    def ask(self, name: str, event: Any, timeout_s: float) -> Any:
        """Ask a shard, once it is open."""
        if name not in self._open:
            self._read(f"machine/{name}", timeout_s)
            self._open.add(name)
        with self._lock:  # shards are asked beside each other, in one life
            if self._way is None:
                self._way = Failover(self._rank, time.time_ns(), self._connect, room=self._read("room"))
                self._following.start()
        return self._way.ask(name, event, timeout_s)

    @property
    def retried(self) -> int:
        """How often a request had to be sent again."""
        return 0 if self._way is None else self._way.retried

    def reports(self) -> list[dict[str, Any]]:
        """What each server that can be reached tells of this run."""
        told = []
        for where in self._access.servers if self._lead is None else self._lead.met:
            with suppress(TightwireError):
                caller = self._caller(where)
                caller.connect(_CONNECT_S)
                told.append(caller.status(_CONNECT_S))
                caller.drop()
        return told

    def close(self, *, abandon: bool) -> None:
        """Say goodbye to the views, and to the servers without a word: they are told by rank 0."""
        self._over.set()
        if self._following.is_alive():
            self._following.join(_COME_S)
        if self._views is not None and not abandon:
            self._views.leave()
        if self._way is not None:
            self._way.close()
        if self._lead is not None:
            self._lead.close(abandon=abandon)
            self._lead = None

    def _follow(self) -> None:
        assert self._way is not None
        while not self._over.wait(_FOLLOW_EVERY_S):
            self._way.follow()

    # ── where everything is ───────────────────────────────────────────────────────────────────────────────────────

    def _leads(self) -> Lead:
        if self._lead is None:
            room = secrets.token_hex(8)
            self._lead = Lead(self._access, room)
            self._store.set(self._key("room"), room)
            self._store.set(self._key("views"), self._lead.start())
        return self._lead

    def _places(self) -> dict[str, str]:
        return places_of(self._access, self._read("views"))

    def _connect(self, to: str) -> Calls:
        caller = self._caller(to)
        if to == VIEWS:
            caller.come(_COME_S)  # rank 0 stays until all have left
            self._views = caller
        else:
            caller.visit(_CONNECT_S)
        return caller

    def _caller(self, to: str) -> Caller:
        room = "" if to == VIEWS else self._read("room")
        caller = Caller(
            place_of(self._places(), to), host=to, me=self._rank, form=ChainForm(), identity=self._access.identity(),
            room=room,
        )  # fmt: skip
        caller.carried = self._count
        return caller

    def _count(self, name: str, event: Any, tx: int, rx: int) -> None:
        inner = event.event if isinstance(event, Request) else event
        self.carried(name.partition("/")[2], inner, tx, rx)

    def _read(self, what: str, timeout_s: float = _COME_S) -> str:
        if what not in self._told:
            try:
                self._store.wait([self._key(what)], timedelta(seconds=timeout_s))
            except RuntimeError:
                raise PeerTimeout(
                    f"rank {self._rank} waited {timeout_s:g} s for another rank to tell of {what} (exchange_timeout_s)"
                ) from None
            self._told[what] = self._store.get(self._key(what)).decode()
        return self._told[what]

    def _key(self, what: str) -> str:
        return f"{self._meeting}/chain/{what}"
