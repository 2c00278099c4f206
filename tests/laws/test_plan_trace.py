"""The simulator against the runtime itself, on the in-process link: the same order of events, and the same bytes."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from tightwire.algebra.recipe import AnyRecipe
from tightwire.links.loop import LoopLink
from tightwire.plan.cluster import PERFECT, flat
from tightwire.plan.codings import with_codings
from tightwire.plan.made import made_profile
from tightwire.plan.profile import Profile
from tightwire.plan.simulate import simulate
from tightwire.plan.trace import Trace
from tightwire.recipes.catalogue import by_name
from tightwire.run.join import join
from tightwire.run.together import earliest, now, spend, together

WORKERS, STEPS = 3, 8
SERVED = {
    "asgd": {}, "downpour": {}, "ssp": {"staleness": 1}, "bounded-delay": {"delay": 1}, "softsync": {"n": 2},
    "backup-workers": {}, "hardsync": {}, "easgd": {"tau": 2}, "round-robin-easgd": {"tau": 2}, "asysg-con": {},
}  # fmt: skip
TOGETHER = {
    "sync-sgd": {}, "firecaffe": {}, "ddl": {}, "local-sgd": {"tau": 2}, "diloco": {"tau": 2}, "gossip-pull": {},
    "half": {}, "terngrad": {}, "one-bit": {}, "powersgd": {}, "top-k": {"density": 0.1}, "dgc": {"density": 0.05},
}  # fmt: skip


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 30), nn.Linear(30, 30), nn.Linear(30, 5))


def delays(rank: int, step: int) -> float:
    """Times that never tie, different for every rank and step."""
    return 1.0 + ((rank * 7919 + step * 104729) % 997) / 997


def shapes() -> dict[str, tuple[int, ...]]:
    return {name: tuple(p.shape) for name, p in network().named_parameters()}


def profile(recipe: AnyRecipe) -> Profile:
    made = made_profile(shapes(), forward_s=1.0, backward_s=0.0, batch=4)
    coded = with_codings(made, network(), [recipe], workers=WORKERS, repeats=1)
    free = {key: replace(of, encode_s=0.0, decode_s=0.0, settle_s=0.0) for key, of in coded.codings.items()}
    return made.but(codings=free)


def played(recipe: AnyRecipe) -> Trace:
    """On a link like the in-process one: no collectives of its own, and a server that is nobody's neighbour."""
    cluster = replace(flat(PERFECT), native=False, servers="apart")
    return simulate(recipe, profile(recipe), cluster, WORKERS, steps=STEPS + 2, delays=delays)


def really(recipe: AnyRecipe, *, watch: Callable[[int, int], None]) -> list[tuple[int, int]]:
    """Train in process; ``watch(rank, step)`` is called at the end of every step. Bytes sent and received, by rank."""

    def one(rank: int) -> tuple[int, int]:
        model = network()
        with join(recipe, model, torch.optim.SGD(model.parameters(), lr=0.01)) as wire:
            before = wire.ledger.tx_bytes, wire.ledger.rx_bytes
            for step in range(STEPS):
                spend(delays(rank, step))
                model(torch.randn(4, 20)).square().mean().backward()
                wire.step()
                watch(rank, step)
            return wire.ledger.tx_bytes - before[0], wire.ledger.rx_bytes - before[1]

    return together(WORKERS, one, order=earliest())


@pytest.mark.parametrize("name", SERVED)
def test_workers_step_in_the_same_order(name: str) -> None:
    recipe = by_name(name, **SERVED[name])
    seen: list[tuple[float, int, int]] = []
    really(recipe, watch=lambda rank, step: seen.append((round(now() or 0.0, 9), rank, step)))
    trace = played(recipe)
    stepped = [(round(m.time_s, 9), m.rank, m.step) for m in trace.moments if m.what == "stepped"]
    alone = min(time for time, rank, step in seen if step == STEPS - 1)  # then somebody leaves, which nobody simulates
    assert len([entry for entry in seen if entry[0] < alone]) > WORKERS * 3
    assert sorted(e for e in stepped if e[0] < alone) == sorted(e for e in seen if e[0] < alone)


@pytest.mark.parametrize("name", ["asgd", "hardsync", "easgd", "bounded-delay"])
def test_a_server_costs_the_same_bytes(name: str) -> None:
    recipe = by_name(name, **SERVED[name])
    real = really(recipe, watch=lambda rank, step: None)
    trace = played(recipe)
    taken = [sum(m.rank == rank and m.what == "stepped" for m in trace.moments) for rank in range(WORKERS)]
    for rank in range(WORKERS):
        if taken[rank] % 2 == 0:  # whole periods
            assert trace.tx_nbytes[rank] / taken[rank] == real[rank][0] / STEPS
            assert trace.rx_nbytes[rank] / taken[rank] == real[rank][1] / STEPS


@pytest.mark.parametrize("name", TOGETHER)
def test_the_same_messages_in_the_same_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = by_name(name, **TOGETHER[name])
    sent: dict[int, list[tuple[int, int]]] = {rank: [] for rank in range(WORKERS)}
    steps: dict[int, int] = dict.fromkeys(range(WORKERS), 0)
    send = LoopLink.send

    def noted(link: LoopLink, tensor: torch.Tensor, to: int, tag: int) -> object:
        if 2 <= steps[link.world.rank] < STEPS:  # the first steps also find out who uses what
            sent[link.world.rank].append((to, tensor.nbytes))
        return send(link, tensor, to, tag)

    def watch(rank: int, step: int) -> None:
        steps[rank] = step + 1

    monkeypatch.setattr(LoopLink, "send", noted)
    really(recipe, watch=watch)
    trace = played(recipe)
    for rank in range(WORKERS):
        played_here = [m for m in trace.moments if m.rank == rank and m.what.startswith("sent") and 2 <= m.step < STEPS]
        assert [tuple(map(int, m.what.split()[1:])) for m in played_here] == sent[rank]
        assert sent[rank]
