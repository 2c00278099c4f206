"""A server that joins others: it offers itself to them again and again, for every run whose token it has.

    s9   ──join: "grpc+tls://node9:7000"──▶ s1 ──▶ views of each run that s1 keeps shards of ──▶ a seat for s9

Saying it again costs little, and reaches runs that begin later and servers that were started anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tightwire.algebra.errors import AccessError, TightwireError
from tightwire.links.access import is_address
from tightwire.links.door import Door
from tightwire.links.tokens import Token

if TYPE_CHECKING:  # Arrow is loaded only where there is a server
    from tightwire.links.flight_client import Caller

_EVERY_S = 2.0
_CONNECT_S = 2.0
_NO_TOKEN = Token("", "write", "")


def reached_at(listen: str, told: str | None) -> str:
    """Where others find this server: where it listens, unless that is everywhere.

    >>> reached_at("grpc://10.0.0.7:7000", None)
    'grpc://10.0.0.7:7000'
    """
    where = told or listen
    everywhere = False
    with suppress(ValueError):
        everywhere = ip_address(urlsplit(where).hostname or "").is_unspecified
    if everywhere or not is_address(where) or urlsplit(where).scheme != urlsplit(listen).scheme:
        raise AccessError(
            f"--join: others cannot find a server at {where}; name it with --at {urlsplit(listen).scheme}://HOST:PORT"
        )
    return where


class Joining:
    """Offers the server that is found ``at`` an address to the servers ``to``."""

    def __init__(
        self, door: Door, *, at: str, to: Sequence[str], authority: bytes, say: Callable[[str], None]
    ) -> None:  # fmt: skip
        self._door = door
        self._at = at
        self._ways = [(where, token) for where in to for token in door.tokens or (_NO_TOKEN,) if token.may == "write"]
        self._authority = authority
        self._say = say
        self._said: dict[str, str] = {}
        self._over = threading.Event()

    def start(self) -> None:
        """From now on."""
        threading.Thread(target=self._run, name="joining", daemon=True).start()

    def end(self) -> None:
        """Not any more."""
        self._over.set()

    def _run(self) -> None:
        callers: dict[tuple[str, Token], Caller] = {}
        while True:
            for way in self._ways:
                try:
                    if way not in callers:
                        callers[way] = self._connected(*way)
                    callers[way].introduce(self._at, _CONNECT_S)
                    self._tell(way[0], "offered", f"offered to {way[0]} as {self._at}")
                except TightwireError as error:
                    if (caller := callers.pop(way, None)) is not None:
                        caller.drop()
                    self._tell(way[0], "in vain", f"cannot join {way[0]} now, and goes on trying: {error}")
            if self._over.wait(_EVERY_S):
                break
        for caller in callers.values():
            caller.drop()

    def _connected(self, where: str, token: Token) -> Caller:
        from tightwire.links.flight import Place  # noqa: PLC0415 -- loads Arrow
        from tightwire.links.flight_client import Caller  # noqa: PLC0415
        from tightwire.server.wireform import WireForm  # noqa: PLC0415

        door = self._door
        identity = (door.certificate, door.key) if door.certificate else None
        place = Place(where, token.secret, self._authority.decode())
        caller = Caller(place, host=where, me=-1, form=WireForm(), identity=identity)
        caller.connect(_CONNECT_S)
        return caller

    def _tell(self, where: str, how: str, text: str) -> None:
        if self._said.get(where) != how:
            self._said[where] = how
            self._say(text)
