"""Small messages by sockets of our own: in order, in one piece, with names for who is late or gone."""

from __future__ import annotations

import socket
import threading

import pytest
import torch
from torch import Tensor

from tightwire.algebra.errors import PayloadError, PeerLost, PeerTimeout
from tightwire.links.pipes import Pipes


def two() -> tuple[Pipes, Pipes]:
    left, right = _connected()
    return Pipes(0, {1: left}, lambda: ""), Pipes(1, {0: right}, lambda: "; no sign of life from rank 0")


def _connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        left = socket.create_connection(listener.getsockname())
        return left, listener.accept()[0]


def frame(nbytes: int, value: int = 7) -> Tensor:
    length = torch.tensor([nbytes]).view(torch.uint8)
    return torch.cat([length, torch.full((nbytes,), value, dtype=torch.uint8)])


def room(nbytes: int) -> Tensor:
    return torch.zeros(8 + nbytes, dtype=torch.uint8)


def test_messages_come_in_order_and_may_be_shorter_than_their_room() -> None:
    left, right = two()
    for nbytes in (5, 0, 9):
        left.send(frame(nbytes, nbytes), 1, 0)
    rooms = [room(9) for _ in range(3)]
    pending = [right.receive(space, 0, 0) for space in rooms]
    pending[2].wait(5)  # those before it are taken first
    for space, nbytes in zip(rooms, (5, 0, 9), strict=True):
        assert torch.equal(space[: 8 + nbytes], frame(nbytes, nbytes)) and not space[8 + nbytes :].any()
    for message in pending:
        message.wait(0)
    left.close()
    right.close()


def test_two_that_send_each_other_more_than_buffers_hold_both_get_it() -> None:
    left, right = two()
    nbytes, got = 30 << 20, {}

    def talk(me: Pipes, other: int) -> None:
        space = room(nbytes)
        incoming = me.receive(space, other, 0)
        outgoing = me.send(frame(nbytes, other), other, 0)
        incoming.wait(30)
        outgoing.wait(30)
        got[other] = bool((space[8:] == 1 - other).all())

    beside = threading.Thread(target=talk, args=(right, 0))
    beside.start()
    talk(left, 1)
    beside.join()
    assert got == {0: True, 1: True}
    left.close()
    right.close()


def test_who_is_late_is_named() -> None:
    left, right = two()
    with pytest.raises(PeerTimeout, match=r"rank 1 waited 0.05 s for a message from rank 0; no sign of life"):
        right.receive(room(3), 0, 0).wait(0.05)
    left.close()
    right.close()


def test_who_is_gone_is_named_after_what_it_sent_has_come() -> None:
    left, right = two()
    left.send(frame(3), 1, 0)
    left.close()
    space = room(3)
    right.receive(space, 0, 0).wait(5)
    assert torch.equal(space, frame(3))
    with pytest.raises(PeerLost, match=r"rank 1 lost its connection while waiting for a message from rank 0"):
        right.receive(room(3), 0, 0).wait(5)
    right.close()


def test_a_message_longer_than_can_be_is_refused() -> None:
    left, right = two()
    left.send(frame(4), 1, 0)
    with pytest.raises(PayloadError, match="claims 4 bytes where at most 3 fit"):
        right.receive(room(3), 0, 0).wait(5)
    left.close()
    right.close()
