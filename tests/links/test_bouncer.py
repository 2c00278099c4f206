"""Strangers are shown out: those who linger, carry too much, or crowd the door; never one who has shown a token."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tightwire.links.bouncer import Bouncer
from tightwire.links.limits import Limits


@pytest.fixture
def door() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def knock(door: socket.socket, held: ExitStack) -> tuple[socket.socket, str]:
    """A connection, and what gRPC would call it; its other end lives in this process too."""
    ours = held.enter_context(socket.create_connection(door.getsockname()))
    held.enter_context(door.accept()[0])
    ours.settimeout(1.0)
    return ours, f"ipv4:127.0.0.1:{ours.getsockname()[1]}"


def shown_out(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False


def test_who_lingers_without_a_token_is_shown_out(door: socket.socket) -> None:
    with ExitStack() as held:
        bouncer = Bouncer(door.getsockname()[1], Limits(unproven_s=10.0))
        (stranger, _), (worker, peer) = knock(door, held), knock(door, held)
        bouncer.prove(peer, 0.0)
        assert bouncer.look(0.0) == 0 and bouncer.connections == 2
        assert bouncer.look(9.0) == 0
        assert bouncer.look(11.0) == 1
        assert shown_out(stranger) and not shown_out(worker)


def test_who_carries_much_without_a_token_is_shown_out(door: socket.socket) -> None:
    with ExitStack() as held:
        bouncer = Bouncer(door.getsockname()[1], Limits(unproven_nbytes=1000))
        stranger, _ = knock(door, held)
        stranger.sendall(b"x" * 500)
        assert bouncer.look(0.0) == 0
        stranger.sendall(b"x" * 600)
        assert bouncer.look(0.1) == 1 and shown_out(stranger)


def test_of_a_crowd_the_oldest_go_first_and_workers_stay(door: socket.socket) -> None:
    with ExitStack() as held:
        bouncer = Bouncer(door.getsockname()[1], Limits(unproven=2, connections=4))
        crowd = []
        for moment in range(5):
            crowd.append(knock(door, held))
            if moment == 0:
                bouncer.prove(crowd[0][1], 0.0)
            bouncer.look(float(moment))
        assert [shown_out(one) for one, _ in crowd] == [False, True, True, False, False]


def test_a_token_shown_while_we_look_is_not_forgotten(door: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker comes and begins a large push between our look at the sockets and our notes."""
    with ExitStack() as held:
        bouncer = Bouncer(door.getsockname()[1], Limits(unproven_nbytes=1000))
        came: list[socket.socket] = []

        def late() -> dict[tuple[str, int], int]:
            if not came:
                worker, peer = knock(door, held)
                came.append(worker)
                bouncer.prove(peer, 5.001)
                return {}
            return Bouncer._mine(bouncer)

        monkeypatch.setattr(bouncer, "_mine", late)
        bouncer.look(5.0)
        came[0].sendall(b"x" * 5000)
        assert bouncer.look(5.1) == 0 and not shown_out(came[0])
