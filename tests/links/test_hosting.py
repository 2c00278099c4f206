"""Parameter servers in real processes: the in-process link's bits where those are determined, and faults by name."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from tests.links.test_torchdist import train_one
from tests.worlds import collect, free_port, processes, start
from tightwire.algebra.errors import AccessError, JoinError, LinkError
from tightwire.algebra.recipe import AnyRecipe, forever, phases
from tightwire.exchanges.server import server
from tightwire.links.hosting import Hosting
from tightwire.recipes import asgd, bounded_delay, easgd, hardsync, omnivore, round_robin_easgd, ssp, sync_sgd
from tightwire.run.join import join
from tightwire.run.settings import Settings
from tightwire.run.together import together
from tightwire.run.wire import Wire
from tightwire.testing.cases import distance

pytestmark = pytest.mark.processes

SAME: dict[str, tuple[AnyRecipe, float]] = {
    "hardsync": (hardsync(), 0.0),
    "hardsync on 2 shards": (hardsync().but(exchange=server(2)), 0.0),
    "bounded delay 0": (bounded_delay(0), 0.0),
    "forced turns": (round_robin_easgd(), 0.0),
    "ssp 0": (ssp(0), 1e-6),  # steps are added in the order in which they come, and rounding knows it
    "a server in the second phase": (phases((6, sync_sgd()), (forever, hardsync())), 1e-6),  # a native collective first
}


def several(names: list[str], steps: int = 12) -> list[tuple[dict[str, Tensor], int, int]]:
    """One run after another in the same processes; on the in-process link there is no group to open."""
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    return [train_one(name, SAME[name][0], steps) for name in names]


def test_what_is_determined_is_what_the_in_process_link_gives() -> None:
    names = list(SAME)
    inside = together(3, lambda rank: several(names))
    for rank, (ours, theirs) in enumerate(zip(inside, processes(3, several, names), strict=True)):
        for name, one, other in zip(names, ours, theirs, strict=True):
            assert distance(one[0], other[0]) <= SAME[name][1], name
            if rank == 2 and "phase" not in name:  # it keeps no shard: its payloads cross a socket, in their envelopes
                assert one[1] < other[1] and one[2] < other[2], name


def descend(wire: Wire, model: nn.Linear, steps: int) -> None:
    for _ in range(steps):
        (model.weight - (wire.rank + 1)).square().sum().mul(0.5).backward()
        wire.step()


def small(recipe: AnyRecipe, **settings: Any) -> tuple[Wire, nn.Linear]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2, bias=False)
    return join(recipe, model, torch.optim.SGD(model.parameters(), lr=0.1), settings=Settings(**settings)), model


def everything(folder: str) -> dict[str, Any]:
    """Asynchronous recipes one after another: answers, staleness, counts, a checkpoint, another end for each."""
    seen: dict[str, Any] = {}
    dist.init_process_group("gloo")
    for name, recipe in {"asgd": asgd(), "easgd": easgd(tau=2), "omnivore": omnivore(2)}.items():
        wire, model = small(recipe)
        with wire:
            descend(wire, model, 4)
            with wire.answer() as answer:
                seen[name] = [t.clone() for t in answer.state_dict().values()]
            saved = wire.count("steps", 4)
            path = wire.save(f"{folder}/{name}")
            assert wire.applied
            stale = wire.staleness()
            wire.agree(False)
            descend(wire, model, 2 if name == "omnivore" else 1 + wire.rank)
            wire.count("steps", 1)
            wire.load(path)
            assert wire.clock == 4
            with wire.answer() as answer:
                assert all(map(torch.equal, answer.state_dict().values(), seen[name]))
            assert saved <= wire.count("steps") == 16
        seen[name] += [stale, model.weight.detach().clone()]
    return seen


def test_answers_checkpoints_and_counts_of_asynchronous_recipes(tmp_path: Any) -> None:
    seen = processes(4, everything, str(tmp_path))
    for name, pushes in {"asgd": 16, "easgd": 8, "omnivore": 8}.items():
        assert all(one[name][0].equal(seen[0][name][0]) for one in seen), name
        assert all(one[name][-1].equal(seen[0][name][-1]) for one in seen), name
        assert all(sum(one[name][1]["histogram"].values()) == pushes for one in seen), name


def leave_early(seconds: float) -> float:
    """Rank 0, which keeps the server, is done at once; the others are not."""
    wire, model = small(asgd())
    begin = time.monotonic()
    if wire.rank:
        time.sleep(seconds)
        descend(wire, model, 2)
    wire.close()
    return time.monotonic() - begin


def test_a_rank_that_is_done_serves_until_all_have_left() -> None:
    took = processes(3, leave_early, 0.5)
    assert took[0] >= 0.5


def until_it_fails(recipe: AnyRecipe, victim: int, how: str) -> tuple[str, str, float]:
    wire, model = small(recipe, exchange_timeout_s=1.5, step_timeout_s=20.0)
    descend(wire, model, 3)
    wire.agree(False)
    if wire.rank == victim:
        os.kill(os.getpid(), signal.SIGSTOP if how == "stopped" else signal.SIGKILL)
    begin = time.monotonic()
    try:
        descend(wire, model, 10**6)
    except LinkError as error:
        return type(error).__name__, str(error), time.monotonic() - begin
    raise AssertionError("nothing was noticed")


@pytest.mark.parametrize(
    ("recipe", "victim", "how", "kind", "says"),
    [
        (hardsync(), 2, "killed", "PeerLost", "for rank 2, gone without a goodbye"),
        (hardsync(), 2, "stopped", "PeerTimeout", "which waits for rank 2 (exchange_timeout_s)"),
        (asgd(), 0, "killed", "PeerLost", "rank 0, where it is, is gone"),
        (asgd(), 0, "stopped", "PeerTimeout", "rank 0, where it is, did not answer within 1.5 s (exchange_timeout_s)"),
    ],
    ids=["a worker dies", "a worker stops", "the server dies", "the server stops"],
)
def test_who_is_missing_is_named_in_time(recipe: AnyRecipe, victim: int, how: str, kind: str, says: str) -> None:
    port = free_port()
    started = [start(rank, 3, until_it_fails, recipe, victim, how, port=port) for rank in range(3)]
    try:
        survivors = collect([entry for rank, entry in enumerate(started) if rank != victim], 30.0)
    finally:
        for process, _ in started:
            process.kill()
            process.join()
    assert any(heard == kind and says in text for heard, text, _ in survivors), survivors
    assert all(seconds < 10.0 for _, _, seconds in survivors)


def test_a_link_without_a_form_hosts_nothing() -> None:
    with pytest.raises(JoinError, match="without a form"):
        Hosting(0, None, "room", None).host("shard", lambda: None, on=0)  # type: ignore[arg-type, return-value]


def on_two_machines(address: str) -> str:
    os.environ["TIGHTWIRE_ADDRESS"] = address
    try:
        small(asgd())
    except AccessError as error:
        return str(error)
    except LinkError as error:  # the other rank had no keys
        return type(error).__name__
    return "it joined"


def test_between_machines_a_server_without_keys_does_not_open() -> None:
    keeper, other = processes(2, on_two_machines, "192.0.2.1", hosts=2)
    assert "without --token-file --cert --key --ca" in keeper and "give --insecure" in keeper
    assert other != "it joined"


def test_several_machines_that_share_a_loopback_need_no_keys() -> None:
    assert processes(2, on_two_machines, "127.0.0.1", hosts=2) == ["it joined"] * 2


def loss_alone() -> float:
    """The whole way once."""
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 2))
    with join(asgd(), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
        for _ in range(30):
            wire.batch(torch.ones(4, 8), torch.ones(4, 2), F.mse_loss)
            wire.step()
    return float(F.mse_loss(model(torch.ones(4, 8)), torch.ones(4, 2)).detach())


def test_one_worker_alone_needs_no_socket() -> None:
    assert processes(1, loss_alone)[0] < 0.05
