"""How ranks come to have connections between each two of them: who is greater calls, who is lesser listens.

A rank tells the store where it listens, and a word that callers must say, so that strangers are turned away; who says
nothing keeps nobody waiting. Nothing is encrypted, as nothing of gloo's is. Where not all reach each other in time (a
firewall, a name that only one machine knows), or where there are too many, nobody has connections: all ranks decide
alike.
"""

from __future__ import annotations

import secrets
import selectors
import socket
import time
from collections.abc import Iterable

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
    _close((found or {}).values())
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
            found |= _answer(listener, word, range(world.rank + 1, world.size), deadline)
        except (OSError, ValueError):
            _close(found.values())
            return None
    return found


def _call(where: str, rank: int, deadline: float) -> socket.socket:
    host, port, word = where.split()
    connection = socket.create_connection((host, int(port)), timeout=_left_s(deadline))
    connection.sendall(bytes.fromhex(word) + rank.to_bytes(_RANK_NBYTES, "little"))
    return connection


def _answer(listener: socket.socket, word: bytes, ranks: range, deadline: float) -> Connections:
    """A connection from each of these ranks. All callers are heard at once; strangers are cut off."""
    found, heard = Connections(), dict[socket.socket, bytearray]()
    with selectors.DefaultSelector() as calls:
        calls.register(listener, selectors.EVENT_READ)
        try:
            while len(found) < len(ranks):
                for key, _ in calls.select(_left_s(deadline)):
                    if key.fileobj is listener:
                        caller = _accepted(listener)
                        calls.register(caller, selectors.EVENT_READ, caller)
                        heard[caller] = bytearray()
                    elif _said_all(key.data, heard[key.data]):
                        calls.unregister(key.data)
                        rank = _rank(bytes(heard[key.data]), word)
                        if rank in ranks and rank not in found:
                            found[rank] = key.data
                            del heard[key.data]
            return found
        except OSError:
            _close(found.values())
            raise
        finally:
            _close(heard)


def _accepted(listener: socket.socket) -> socket.socket:
    caller, _ = listener.accept()
    caller.setblocking(False)
    return caller


def _said_all(caller: socket.socket, said: bytearray) -> bool:
    """Hear more of what a caller says; True if it is all, or there will be no more."""
    try:
        more = caller.recv(_WORD_NBYTES + _RANK_NBYTES - len(said))
    except BlockingIOError:
        return False
    except OSError:
        more = b""
    said += more
    return not more or len(said) == _WORD_NBYTES + _RANK_NBYTES


def _rank(said: bytes, word: bytes) -> int:
    """The rank of a caller who knows the word; −1 for a stranger."""
    whole = len(said) == _WORD_NBYTES + _RANK_NBYTES and secrets.compare_digest(said[:_WORD_NBYTES], word)
    return int.from_bytes(said[_WORD_NBYTES:], "little") if whole else -1


def _close(connections: Iterable[socket.socket]) -> None:
    for connection in connections:
        connection.close()


def _left_s(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("nobody came in time")
    return left
