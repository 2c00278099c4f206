"""What rank 0 does for shards that several servers may keep: it decides on views, and invites servers.

Views live behind a Flight server of their own in rank 0's process. A server that is not heard of for a while is given a
seat for every shard: one that was started anew knows nothing else of the run. A server that nobody named offers itself
to one that was (`engines.joining`), which tells the views.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from tightwire.algebra.errors import PeerTimeout, TightwireError
from tightwire.links.access import Access, is_deserted, is_loopback
from tightwire.links.door import LOOPBACK, Door, embedded_door
from tightwire.links.flight import Place
from tightwire.links.flight_client import Caller
from tightwire.links.service import Service
from tightwire.links.tokens import fresh_token
from tightwire.run.chain_desk import address
from tightwire.run.chain_host import place_of
from tightwire.run.views_desk import ViewsDesk
from tightwire.server.chain import Copied, Letter, Over, Seat
from tightwire.server.chainform import ChainForm
from tightwire.server.replica import VIEWS
from tightwire.server.views import Views

PATIENCE_S = 1.0
"""How long a server may be silent before it is left out."""

_CONNECT_S = 1.0
_OPEN_S = 30.0
_INVITE_EVERY_S = 0.5
_GOODBYES_S = 600.0
_OFFERED_S = 30.0


def places_of(access: Access, views: str) -> dict[str, str]:
    """Where servers and views are and what opens them, by name; a server's name is where it listens."""
    token, authority = access.token(), access.authority().decode()
    secret = token.secret if token else ""
    return {VIEWS: views} | {where: Place(where, secret, authority).write() for where in access.servers}


def give_seat(
    access: Access, places: Mapping[str, str], room: str, *, to: str, shard: str, copied: Copied | None = None
) -> None:
    """Have a server take its place in the chain of a shard; the first one is given the machine."""
    caller = Caller(
        place_of(places, to), host=to, me=0, form=ChainForm(), identity=access.identity(), room=room
    )  # fmt: skip
    caller.connect(_CONNECT_S)
    try:
        caller.open(shard, Seat(room, to, tuple(places.items()), copied), _OPEN_S)  # type: ignore[arg-type]
    finally:
        caller.drop()


class Lead:
    """Rank 0's part."""

    def __init__(self, access: Access, room: str) -> None:
        self._access = access
        self._room = room
        self._shards: list[str] = []
        self._desk = ViewsDesk(Views(access.copies or 1, PATIENCE_S))
        self.met = list(access.servers)  # all servers that ever were
        self._service: Service | None = None
        self._places: dict[str, str] = {}
        self._over = threading.Event()

    def start(self) -> str:
        """Open the views; returns where they are."""
        near = all(is_loopback(urlsplit(where).hostname or "") for where in self._access.servers)
        door = Door(LOOPBACK, (fresh_token(""),)) if near else embedded_door(self._access, machines=2)
        self._service = Service(ChainForm(), door)
        where = self._service.add(self._desk).write()
        self._places = places_of(self._access, where)
        self._desk.start()
        threading.Thread(target=self._invite, name="invitations", daemon=True).start()
        return where

    def add(self, shard: str) -> None:
        """One more shard."""
        self._shards.append(shard)

    def close(self, *, abandon: bool) -> None:
        """Serve until everybody has left, then tell the servers that it is over."""
        assert self._service is not None
        late = [] if abandon else self._service.wait_for_goodbyes(_GOODBYES_S)
        self._over.set()
        if not abandon:
            for to in self.met:
                with suppress(TightwireError):
                    self._dismiss(to)
        self._service.close()
        if late:
            raise PeerTimeout(f"the views were kept for {_GOODBYES_S:g} s more, and rank {late[0]} had not left")

    def _dismiss(self, to: str) -> None:
        caller = Caller(
            place_of(self._places, to), host=to, me=0, form=ChainForm(), identity=self._access.identity()
        )  # fmt: skip
        caller.connect(_CONNECT_S)
        for shard in self._shards:
            caller.ask(address(self._room, shard), Letter("", Over()), _CONNECT_S)
        caller.drop()

    def _invite(self) -> None:
        while not self._over.wait(_INVITE_EVERY_S):
            for shard in list(self._shards):
                for to in self._desk.look(lambda views, shard=shard: self._missing(views, shard)):  # type: ignore[misc]
                    self._seat(to, shard)

    def _seat(self, to: str, shard: str) -> None:
        try:
            give_seat(self._access, self._places, self._room, to=to, shard=shard)
            self._desk.stays(to)  # it has been started anew
        except TightwireError:  # it is open there already, or nobody is there
            if is_deserted(to):
                self._desk.look(lambda views: views.end(to))

    def _missing(self, views: Views, shard: str) -> list[str]:
        """Servers that were not heard of, once the shard has a first one."""
        if shard not in views.views:
            return []
        since = time.monotonic() - PATIENCE_S
        heard = {member.server for member, last_s in views.heard_s[shard].items() if last_s > since}
        return [to for to in self._servers() if to not in heard]

    def _servers(self) -> list[str]:
        """Those that were named from the start, and those that have offered themselves lately."""
        since, scheme = time.monotonic() - _OFFERED_S, urlsplit(self._access.servers[0]).scheme
        offered = [to for to, last_s in self._desk.joined.items() if last_s > since and urlsplit(to).scheme == scheme]
        self.met += [to for to in offered if to not in self.met]
        return [*self._access.servers, *(to for to in offered if to not in self._access.servers)]
