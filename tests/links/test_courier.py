"""Messages go in order, are not doubled while under way, and are lost without fuss."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from tightwire.algebra.errors import PeerLost
from tightwire.links.courier import Courier, Parcel


class Post:
    """A receiver that can be slow or gone."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.gate = threading.Event()
        self.gate.set()
        self.gone = False
        self.connected = 0

    def connect(self, to: str) -> Post:
        self.connected += 1
        if self.gone:
            raise PeerLost(f"{to} is gone")
        return self

    def ask(self, name: str, event: Any, timeout_s: float) -> Any:
        self.gate.wait(5.0)
        if self.gone:
            raise PeerLost("gone")
        self.got.append(event)
        return f"{event}!"

    def drop(self) -> None:
        pass


def soon(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 5.0
    while not true() and time.monotonic() < deadline:
        time.sleep(0.005)
    return true()


def parcel(message: int, heard: Callable[[Any], None] = lambda reply: None) -> Parcel:
    return Parcel("desk", message, message, heard)


def test_in_order_and_what_the_receiver_says_comes_back() -> None:
    post, said = Post(), list[Any]()
    courier = Courier(post.connect)
    for message in range(20):
        courier.send(parcel(message, said.append), "there")
    assert soon(lambda: len(said) == 20)
    assert post.got == list(range(20)) and said == [f"{n}!" for n in range(20)] and post.connected == 1
    courier.close()


def test_what_is_under_way_is_not_sent_again_and_later_it_is() -> None:
    post = Post()
    post.gate.clear()
    courier = Courier(post.connect)
    for _ in range(5):
        courier.send(parcel(1), "there")
    post.gate.set()
    assert soon(lambda: post.got == [1])
    time.sleep(0.05)
    courier.send(parcel(1), "there")
    assert soon(lambda: post.got == [1, 1])
    courier.close()


def test_a_receiver_that_is_gone_loses_what_was_for_it_and_is_found_again() -> None:
    post = Post()
    post.gone = True
    courier = Courier(post.connect)
    for message in range(3):
        courier.send(parcel(message), "there")
    assert soon(lambda: post.connected >= 1)
    time.sleep(0.1)
    post.gone = False
    courier.send(parcel(9), "there")
    assert soon(lambda: post.got[-1:] == [9])
    assert 0 not in post.got
    courier.close()


def test_one_that_hangs_does_not_keep_the_others() -> None:
    stuck, well = Post(), Post()
    stuck.gate.clear()
    courier = Courier(lambda to: (stuck if to == "stuck" else well).connect(to))
    courier.send(parcel(1), "stuck")
    courier.send(parcel(1), "well")
    assert soon(lambda: well.got == [1])
    stuck.gate.set()
    courier.close()
