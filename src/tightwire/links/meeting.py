"""How ranks come to have connections between each two of them: who is greater calls, who is lesser listens.

A rank tells the store where it listens, and a word that callers must say, so that strangers are turned away; nothing is
encrypted, as nothing of gloo's is. Where not all reach each other in time (a firewall, a name that only one machine
knows), or where there are too many, nobody has connections: all ranks decide alike.
"""

from __future__ import annotations

import secrets
import socket
import time

from tightwire.algebra.errors import AccessError
from tightwire.algebra.world import World
from tightwire.links.access import own_address
from tightwire.links.hosting import Store

MOST_RANKS = 64  # with more, a connection between each two is too many
_MEET_S = 5.0
_WORD_NBYTES, _RANK_NBYTES = 16, 4

Connections = dict[int, socket.socket]


def meet(world: World, store: Store, room: str, *, within_s: float = _MEET_S) -> Connections | None:
    """A connection to every other rank, or None on all ranks. All ranks call this."""
    if not 1 < world.size <= MOST_RANKS:
        return None
    found = _meet(world, store, room, within_s)
    store.set(f"{room}/met/{world.rank}", "yes" if found is not None else "no")
    if all(store.get(f"{room}/met/{rank}") == b"yes" for rank in range(world.size)):
        return found
    for connection in (found or {}).values():
        connection.close()
    return None


def _meet(world: World, store: Store, room: str, within_s: float) -> Connections | None:
    word, found = secrets.token_bytes(_WORD_NBYTES), Connections()
    try:
        listener = socket.create_server((own_address(), 0), backlog=world.size)
    except (OSError, AccessError):
        store.set(f"{room}/meet/{world.rank}", "nowhere")
        return None
    with listener:
        host, port = listener.getsockname()[:2]
        store.set(f"{room}/meet/{world.rank}", f"{host} {port} {word.hex()}")
        places = [store.get(f"{room}/meet/{rank}").decode() for rank in range(world.size)]
        deadline = time.monotonic() + within_s  # from when everybody is there
        try:
            for rank in range(world.rank):
                found[rank] = _call(places[rank], world.rank, deadline)
            while len(found) < world.size - 1:
                rank, connection = _answer(listener, word, deadline)
                if world.rank < rank < world.size:
                    found[rank] = connection
        except (OSError, ValueError):
            for connection in found.values():
                connection.close()
            return None
    return found


def _call(where: str, rank: int, deadline: float) -> socket.socket:
    host, port, word = where.split()
    connection = socket.create_connection((host, int(port)), timeout=_left_s(deadline))
    connection.sendall(bytes.fromhex(word) + rank.to_bytes(_RANK_NBYTES, "little"))
    return connection


def _answer(listener: socket.socket, word: bytes, deadline: float) -> tuple[int, socket.socket]:
    """The next caller; −1 for a stranger, who is cut off."""
    listener.settimeout(_left_s(deadline))
    connection, _ = listener.accept()
    connection.settimeout(_left_s(deadline))
    said = connection.recv(_WORD_NBYTES + _RANK_NBYTES, socket.MSG_WAITALL)
    if not secrets.compare_digest(said[:_WORD_NBYTES], word) or len(said) < _WORD_NBYTES + _RANK_NBYTES:
        connection.close()
        return -1, connection
    return int.from_bytes(said[_WORD_NBYTES:], "little"), connection


def _left_s(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("nobody came in time")
    return left
