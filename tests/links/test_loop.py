"""The in-process world: deterministic, one at a time, and never stuck in silence."""

import pytest
import torch
from torch import Tensor

from tightwire.algebra.errors import Deadlock, PeerLost
from tightwire.links.loop import LoopLink, LoopWorld, shuffled
from tightwire.run.together import together


def test_messages_arrive_in_order_and_as_they_were_sent() -> None:
    def one(link: LoopLink) -> list[float]:
        if link.world.rank == 0:
            message = torch.zeros(1)
            for number in range(3):
                message.fill_(number)
                link.send(message, 1, tag=0)
            return []
        got = torch.empty(1)
        seen = []
        for _ in range(3):
            link.receive(got, 0, tag=0).wait(1.0)
            seen.append(float(got))
        return seen

    assert LoopWorld(2).run(one)[1] == [0.0, 1.0, 2.0]


def test_a_shorter_message_fills_the_beginning() -> None:
    def one(link: LoopLink) -> list[float]:
        if link.world.rank == 0:
            link.send(torch.ones(2), 1, tag=0)
            return []
        got = torch.full((4,), 9.0)
        link.receive(got, 0, tag=0).wait(1.0)
        return got.tolist()

    assert LoopWorld(2).run(one)[1] == [1.0, 1.0, 9.0, 9.0]


def test_workers_that_wait_for_each_other_are_named() -> None:
    def one(link: LoopLink) -> None:
        link.receive(torch.empty(1), (link.world.rank + 1) % 3, tag=0).wait(1.0)

    with pytest.raises(Deadlock, match="rank 0 waits for a message from rank 1; rank 1 waits"):
        LoopWorld(3).run(one)


def test_waiting_for_a_worker_that_has_ended_is_a_deadlock() -> None:
    def one(link: LoopLink) -> None:
        if link.world.rank == 1:
            link.receive(torch.empty(1), 0, tag=0).wait(1.0)

    with pytest.raises(Deadlock, match=r"ranks \[0\] have ended"):
        LoopWorld(2).run(one)


def test_the_first_error_is_raised_and_others_are_told() -> None:
    told: list[str] = []

    def one(link: LoopLink) -> None:
        if link.world.rank == 1:
            raise ValueError("rank 1 broke")
        try:
            link.receive(torch.empty(1), 1, tag=0).wait(1.0)
        except PeerLost as error:
            told.append(str(error))
            raise

    with pytest.raises(ValueError, match="rank 1 broke"):
        LoopWorld(3).run(one)
    assert len(told) == 1, "rank 2 had not begun"
    assert "rank 1 failed" in told[0]


def draw(rank: int) -> list[Tensor]:
    torch.manual_seed(rank)
    return [torch.rand(2) for _ in range(3)]


def test_every_worker_has_random_numbers_of_its_own() -> None:
    def one(link: LoopLink) -> list[Tensor]:
        torch.manual_seed(link.world.rank)
        drawn = []
        for _ in range(3):
            link._loop.pause(link.world.rank)
            drawn.append(torch.rand(2))
        return drawn

    for rank, drawn in enumerate(LoopWorld(3, order=shuffled(4)).run(one)):
        for got, wanted in zip(drawn, draw(rank), strict=True):
            assert torch.equal(got, wanted)


def test_the_callers_random_state_is_left_alone() -> None:
    torch.manual_seed(1)
    wanted = torch.rand(1)
    torch.manual_seed(1)
    together(3, lambda rank: torch.rand(rank + 1))
    assert torch.equal(torch.rand(1), wanted)


def test_jobs_run_in_the_order_they_were_given() -> None:
    def one(link: LoopLink) -> list[int]:
        done: list[int] = []
        pending = [link.submit(lambda k=k: done.append(k)) for k in range(4)]  # type: ignore[misc]
        pending[2].wait(1.0)
        assert done == [0, 1, 2]
        pending[0].wait(1.0)
        pending[3].wait(1.0)
        return done

    assert LoopWorld(1).run(one) == [[0, 1, 2, 3]]
