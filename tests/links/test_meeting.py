"""Ranks come to have connections between each two of them, or none of them has."""

from __future__ import annotations

import socket
import struct
import threading
import time
from typing import Any

import pytest

from tightwire.algebra.world import World
from tightwire.links import meeting
from tightwire.links.access import ADDRESS


class Board:
    """A store of one process."""

    def __init__(self) -> None:
        self._said: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: str) -> None:
        with self._changed:
            self._said[key] = value.encode()
            self._changed.notify_all()

    def get(self, key: str) -> bytes:
        with self._changed:
            assert self._changed.wait_for(lambda: key in self._said, 10)
            return self._said[key]

    def wait(self, keys: list[str], timeout: Any) -> None:
        raise NotImplementedError


def all_meet(size: int, store: Board, within_s: float = 5.0) -> list[dict[int, socket.socket] | None]:
    found: list[dict[int, socket.socket] | None] = [None] * size

    def work(rank: int) -> None:
        found[rank] = meeting.meet(World(rank, size), store, "room", within_s=within_s)

    workers = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, "127.0.0.1")


def test_each_two_are_connected() -> None:
    found = all_meet(4, Board())
    for rank, connections in enumerate(found):
        assert connections is not None and sorted(connections) == [r for r in range(4) if r != rank]
        for other, connection in connections.items():
            connection.sendall(bytes([rank, other]))
    for rank, connections in enumerate(found):
        assert connections is not None
        for other, connection in connections.items():
            assert connection.recv(2) == bytes([other, rank])
            connection.close()


def test_strangers_are_turned_away_and_the_next_one_heard() -> None:
    word, deadline = bytes(range(16)), time.monotonic() + 5
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        silent = socket.create_connection((host, port))
        gone = socket.create_connection((host, port))
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.close()  # with a reset
        wrong = meeting._call(f"{host} {port} {bytes(16).hex()}", 3, deadline)
        nobody = meeting._call(f"{host} {port} {word.hex()}", 4, deadline)
        caller = meeting._call(f"{host} {port} {word.hex()}", 3, deadline)
        found = meeting._answer(listener, word, range(3, 4), deadline)
        assert list(found) == [3] and found[3].getpeername() == caller.getsockname()
        assert time.monotonic() < deadline - 1, "who says nothing keeps nobody waiting"
        for stranger in (silent, wrong, nobody):
            assert stranger.recv(1) == b"", "cut off"
    for end in (silent, wrong, nobody, caller, found[3]):
        end.close()


def test_a_word_that_comes_in_parts_is_heard() -> None:
    word, deadline = bytes(range(16)), time.monotonic() + 5
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as caller:
        caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def speak() -> None:
            for byte in word + (3).to_bytes(4, "little"):
                caller.sendall(bytes([byte]))

        speaking = threading.Thread(target=speak)
        speaking.start()
        found = meeting._answer(listener, word, range(3, 4), deadline)
        speaking.join()
    assert list(found) == [3]
    found[3].close()


def test_where_one_cannot_listen_nobody_has_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, "192.0.2.1")  # nobody's
    assert all_meet(3, Board()) == [None] * 3


def test_where_one_cannot_be_reached_nobody_has_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = meeting._call

    def call(where: str, rank: int, deadline: float) -> socket.socket:
        if rank == 2:
            raise ConnectionRefusedError("a wall")
        return calls(where, rank, deadline)

    monkeypatch.setattr(meeting, "_call", call)
    assert all_meet(3, Board(), within_s=0.3) == [None] * 3


def test_alone_or_too_many_there_is_no_meeting() -> None:
    assert meeting.meet(World(0, 1), Board(), "room") is None
    assert meeting.meet(World(0, meeting.MOST_RANKS + 1), Board(), "room") is None
