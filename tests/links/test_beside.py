"""Messages through memory of one host: the same bytes in the same order as by the port, whatever the memory does."""

from __future__ import annotations

import os
from collections import defaultdict, deque
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from tests.worlds import processes
from tightwire.algebra.errors import JoinError, PayloadError
from tightwire.algebra.link import Pending
from tightwire.algebra.world import World
from tightwire.codecs.half import half
from tightwire.links import beside
from tightwire.links.beside import PLACES, Beside
from tightwire.links.same_host import LEAST_NBYTES
from tightwire.recipes import layerwise
from tightwire.run.join import join
from tightwire.run.together import together

LARGE = LEAST_NBYTES // 4
Mail = dict[tuple[int, int, int], deque[Tensor]]


class _Done:
    def wait(self, timeout_s: float) -> None:
        """At once."""


@dataclass
class _Arrives:
    mail: deque[Tensor]
    into: Tensor

    def wait(self, timeout_s: float) -> None:
        sent = self.mail.popleft()
        assert sent.nbytes == self.into.nbytes, "as gloo has it"
        self.into.view(torch.uint8).copy_(sent.view(torch.uint8))


@dataclass
class Post:
    """A port whose letters are taken in the order in which they were expected, as those of gloo are."""

    rank: int
    mail: Mail
    sent: list[int] = field(default_factory=list)
    exact: bool = False

    def send(self, tensor: Tensor, to: int, tag: int) -> Pending:
        self.sent.append(tensor.nbytes)
        self.mail[self.rank, to, tag].append(tensor.clone())
        return _Done()

    def receive(self, tensor: Tensor, source: int, tag: int) -> Pending:
        return _Arrives(self.mail[source, self.rank, tag], tensor)


def two(hosts: tuple[int, int] = (0, 0)) -> tuple[Beside, Beside, Post]:
    mail: Mail = defaultdict(deque)
    posts = [Post(rank, mail) for rank in range(2)]
    ends = [Beside(post, World(rank, 2, hosts=hosts)) for rank, post in enumerate(posts)]
    return ends[0], ends[1], posts[0]


def passes(sender: Beside, receiver: Beside, body: Tensor, tag: int = 1) -> Tensor:
    sender.send(body, 1, tag).wait(1.0)
    out = torch.empty_like(body)
    receiver.receive(out, 0, tag).wait(1.0)
    return out


@given(st.lists(st.tuples(st.sampled_from([8, LARGE, LARGE + 1, 2 * LARGE]), st.booleans()), max_size=12))
def test_all_arrive_in_order_whatever_their_size_and_whoever_is_late(plan: list[tuple[int, bool]]) -> None:
    sender, receiver, _ = two()
    waiting: deque[Tensor] = deque()
    for k, (size, late) in enumerate([*plan, (8, False)]):
        body = torch.arange(size, dtype=torch.float32) + 1000 * k
        sender.send(body, 1, 2).wait(1.0)
        waiting.append(body)
        while waiting and not late:
            out = torch.empty_like(waiting[0])
            receiver.receive(out, 0, 2).wait(1.0)
            assert torch.equal(out, waiting.popleft())
    sender.close()
    receiver.close()


def test_after_the_first_only_notes_take_the_port() -> None:
    sender, receiver, post = two()
    for k in range(2 * PLACES):
        body = torch.full((LARGE,), float(k))
        assert torch.equal(passes(sender, receiver, body), body)
    assert sender.placed == 2 * PLACES - 1
    assert post.sent[-1] == 16 and sum(post.sent) < 2 * 4 * LARGE
    sender.close()
    receiver.close()


def test_no_place_is_written_before_it_was_read() -> None:
    sender, receiver, _ = two()
    passes(sender, receiver, torch.zeros(LARGE))
    bodies = [torch.full((LARGE,), float(k)) for k in range(PLACES + 2)]
    for body in bodies:
        sender.send(body, 1, 1).wait(1.0)
    assert sender.placed == PLACES, "the others follow by the port"
    for body in bodies:
        out = torch.empty(LARGE)
        receiver.receive(out, 0, 1).wait(1.0)
        assert torch.equal(out, body)
    sender.close()
    receiver.close()


def test_other_hosts_know_nothing_of_it() -> None:
    sender, receiver, post = two(hosts=(0, 1))
    for _ in range(3):
        passes(sender, receiver, torch.zeros(LARGE))
    assert post.sent == [4 * LARGE] * 3 and sender.placed == 0


def test_memory_that_cannot_be_opened_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(offer: object) -> None:
        raise PayloadError("memory was offered by another host")

    monkeypatch.setattr(beside, "open_offered", elsewhere)
    sender, receiver, _ = two()
    for k in range(3):
        body = torch.full((LARGE,), float(k))
        assert torch.equal(passes(sender, receiver, body), body)
    assert sender.placed == 0
    sender.close()


def test_descriptors_are_given_back() -> None:
    before = len(os.listdir("/proc/self/fd"))
    sender, receiver, _ = two()
    for size in (LARGE, LARGE, 2 * LARGE, 3 * LARGE):
        passes(sender, receiver, torch.zeros(size))
    sender.close()
    receiver.close()
    del sender, receiver
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(("use", "cores", "placed"), [("never", 1, 0), ("scarce", 4, 0), ("scarce", 3, 1)])
def test_it_is_used_where_cores_are_scarce(use: str, cores: int, placed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    mail: Mail = defaultdict(deque)
    sender, receiver = (Beside(Post(rank, mail), World(rank, 2, hosts=(0, 0)), use) for rank in range(2))
    for _ in range(2):
        passes(sender, receiver, torch.zeros(LARGE))
    assert sender.placed == placed
    sender.close()


def test_another_word_is_refused() -> None:
    with pytest.raises(JoinError, match="TIGHTWIRE_MEMORY=perhaps"):
        Beside(Post(0, defaultdict(deque)), World(0, 2, hosts=(0, 0)), "perhaps")


@pytest.mark.parametrize("note", [[2, 0], [2, 99], [7, 0], [1, -5]])
def test_notes_that_make_no_sense_are_refused(note: list[int]) -> None:
    _, receiver, post = two()
    post.send(torch.tensor(note), 1, 1)
    with pytest.raises(PayloadError, match="rank 0"):
        receiver.receive(torch.empty(LARGE), 0, 1).wait(1.0)


def train(coded: bool) -> tuple[list[Tensor], int, int, int]:
    """A pipeline with boundaries of 128 KiB and more."""
    os.environ["TIGHTWIRE_MEMORY"] = "always"
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 1024), nn.Tanh(), nn.Linear(1024, 8))
    recipe = layerwise(2, cuts=(2,))
    with join(
        recipe.but(codec=half()) if coded else recipe, model, torch.optim.SGD(model.parameters(), lr=0.1)
    ) as wire:
        for _ in range(6):
            wire.batch(torch.randn(80, 8), torch.zeros(80, 8), F.mse_loss)
            wire.step()
        wire.drain()
        placed = getattr(wire._worker.link.near, "placed", 0)
        return [p.detach() for p in model.parameters()], wire.ledger.tx_bytes, wire.ledger.rx_bytes, placed


@pytest.mark.processes
@pytest.mark.parametrize("coded", [False, True])
def test_a_pipeline_is_the_same_bit_for_bit_and_byte_for_byte(coded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIGHTWIRE_MEMORY", "always")
    inside = together(2, lambda rank: train(coded))
    near, far = processes(2, train, coded), processes(2, train, coded, hosts=2)
    for one, memory, gloo in zip(inside, near, far, strict=True):
        assert all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(one[0], memory[0], gloo[0], strict=True))
        assert one[1:3] == memory[1:3] == gloo[1:3]
        assert memory[3] >= 3 and gloo[3] == 0
