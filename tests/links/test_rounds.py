"""The executor of transfers: in which order a rank posts, and what it takes of a message."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from tightwire.algebra.errors import PayloadError
from tightwire.exchanges import graphs
from tightwire.links.rounds import Route, carry, ended, reduce_


@dataclass
class Diary:
    """A port that writes down what it is asked for; messages that arrive are of one byte, 7."""

    exact: bool = False
    claimed_nbytes: int = 1
    said: list[str] = field(default_factory=list)

    def send(self, tensor: Tensor, to: int, tag: int) -> Diary:
        self.said.append(f"send {to}")
        return self

    def receive(self, tensor: Tensor, source: int, tag: int) -> Diary:
        self.said.append(f"receive {source}")
        if tensor.dtype == torch.uint8:
            tensor[:8] = torch.tensor([self.claimed_nbytes]).view(torch.uint8)
            tensor[8:] = 7
        return self

    def wait(self, timeout_s: float) -> None:
        """It is there."""


def route(diary: Diary) -> Route:
    return Route(diary, (0, 1, 2), 1, 0, 1.0, "a test")


def test_receives_are_posted_before_sends() -> None:
    """Two ranks that send each other large messages would otherwise do it one after the other on gloo."""
    diary = Diary()
    ended(carry(route(diary), [None, torch.zeros(3, dtype=torch.uint8), None], graphs.all_to_all_copy(3), [3, 3, 3]))
    assert diary.said == ["receive 0", "receive 2", "send 2", "send 0"]
    diary.said.clear()
    reduce_(route(diary), torch.zeros(6), graphs.ring(3), 3)
    assert diary.said == ["receive 0", "send 2"] * 4


@pytest.mark.parametrize("exact", [False, True])
def test_a_message_is_as_long_as_it_says(exact: bool) -> None:
    slots: list[Tensor | None] = [None, torch.zeros(3, dtype=torch.uint8), None]
    moved = ended(carry(route(Diary(exact)), slots, graphs.all_to_all_copy(3), [3, 3, 3]))
    assert [slot.tolist() for slot in slots if slot is not None] == [[7], [0, 0, 0], [7]]
    assert moved.rx == (2 * (8 + 3) if exact else 2 * (8 + 1))


def test_a_message_longer_than_can_be_is_refused() -> None:
    slots: list[Tensor | None] = [None, torch.zeros(3, dtype=torch.uint8), None]
    with pytest.raises(PayloadError, match="claims 4 bytes where at most 3 fit"):
        ended(carry(route(Diary(claimed_nbytes=4)), slots, graphs.all_to_all_copy(3), [3, 3, 3]))


def test_it_yields_when_the_messages_of_a_round_are_on_their_way_and_at_the_end() -> None:
    diary = Diary()
    own = torch.zeros(3, dtype=torch.uint8)
    slots: list[Tensor | None] = [None, own, None]
    steps = carry(route(diary), slots, graphs.all_to_all_copy(3), [3, 3, 3])
    next(steps)
    assert diary.said == ["receive 0", "receive 2", "send 2", "send 0"] and slots[0] is None
    next(steps)
    assert slots[0] is not None and slots[2] is not None
    assert ended(steps).rx == 2 * 9
    alone = Diary()
    nobody = carry(Route(alone, (0,), 0, 0, 1.0, "a test"), [own], [], [3])
    next(nobody)
    assert ended(nobody).tx == 0 and not alone.said
