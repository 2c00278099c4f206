"""Predictions against what can be counted by hand."""

import pytest

from tightwire.algebra.recipe import forever, phases
from tightwire.plan.cluster import Link, flat
from tightwire.plan.cost import predict
from tightwire.plan.errors import PlanError
from tightwire.plan.made import made_profile
from tightwire.plan.profile import Overheads, Profile
from tightwire.plan.published.paper import stated_profile
from tightwire.recipes.catalogue import by_name

ALPHA_S, BYTES_PER_S = 1e-3, 1e6
WIRE = flat(Link(ALPHA_S, BYTES_PER_S))
NBYTES = 4 * 100 * 100


def profile(**changes: object) -> Profile:
    made = made_profile({"w": (100, 100)}, forward_s=0.1, backward_s=0.2, update_s=0.05, batch=8)
    return made.but(**changes)


@pytest.mark.parametrize("workers", [2, 3, 4, 8, 512])
def test_a_ring_costs_what_the_textbook_says(workers: int) -> None:
    said = predict(by_name("sync-sgd"), profile(), WIRE, workers)
    ring = 2 * (workers - 1) * (ALPHA_S + -(-10_000 // workers) * 4 / BYTES_PER_S)
    assert said.step_s == pytest.approx(0.35 + ring)
    assert said.tx_nbytes == pytest.approx(2 * (workers - 1) / workers * NBYTES)
    assert said.parts.exchange_s == pytest.approx(ring) and said.parts.total_s == pytest.approx(said.step_s)


def test_a_tree_costs_what_the_textbook_says() -> None:
    said = predict(by_name("firecaffe"), profile(), WIRE, 8)
    assert said.step_s == pytest.approx(0.35 + 2 * 3 * (ALPHA_S + NBYTES / BYTES_PER_S))


def test_averaging_every_tau_steps_costs_a_tau_th() -> None:
    once, rarely = (predict(by_name("local-sgd", tau=tau), profile(), WIRE, 4) for tau in (1, 10))
    assert rarely.parts.exchange_s == pytest.approx(once.parts.exchange_s / 10)
    assert rarely.tx_nbytes == pytest.approx(once.tx_nbytes / 10)


def test_a_servers_port_is_the_bottleneck_it_is() -> None:
    said = predict(by_name("hardsync"), profile(), WIRE, 8)
    ways = 2 * 7 * NBYTES / BYTES_PER_S  # seven push together, then seven read together: they share the port evenly
    assert said.step_s == pytest.approx(ways + 0.3 + 2 * ALPHA_S, rel=0.01)
    free = predict(by_name("asgd"), profile(), flat(Link(0.0, 1e12)), 8)
    assert free.speedup > 8 and free.staleness == pytest.approx(7, abs=1)  # the server takes the update off workers
    assert predict(by_name("asgd"), profile(), WIRE, 16).bottleneck == "server port"
    slow = predict(by_name("asgd"), profile(), flat(Link(0.0, NBYTES / 10.0)), 4)  # one push or answer takes 10 s
    assert 30 < slow.step_s * 4 / 3 < 60  # neither in turn nor all together; the keeper's own steps take no time


def test_buckets_leave_while_the_backward_pass_runs() -> None:
    deep = made_profile({f"w{i}": (100, 100) for i in range(10)}, forward_s=0.1, backward_s=1.0, batch=8)
    piecewise = by_name("sync-sgd", grain="tensor")
    assert predict(piecewise, deep, WIRE, 2).step_s == pytest.approx(1.1 + 0.042)  # only the last is not hidden
    slow = flat(Link(0.0, NBYTES / 0.5))
    assert predict(piecewise, deep, slow, 2).step_s == pytest.approx(0.1 + 0.1 + 10 * 0.5)


def test_everybody_waits_for_the_slowest() -> None:
    uneven = flat(Link(0.0, 1e12))
    said = predict(by_name("sync-sgd"), profile(), type(uneven)(uneven.tiers, speed=(1.0, 0.5)), 2)
    assert said.step_s == pytest.approx(0.7, rel=1e-3) and said.parts.wait_s == pytest.approx(0.175, rel=1e-3)


def test_what_hides_still_needs_a_core() -> None:
    costs = Overheads(native_byte_s=1e-5)
    shared = profile(overheads=costs, slowdown={1: 1.0, 4: 2.0})
    wire = flat(Link(0.0, 1e12), cores=2, sharing=4)
    said = predict(by_name("local-sgd", tau=1), shared, wire, 4)
    assert said.step_s == pytest.approx(2 * (0.35 + 1.5 * NBYTES * 1e-5), rel=1e-6)


def test_waiting_for_a_message_needs_no_core() -> None:
    wire = flat(Link(0.0, 1e12), cores=2, sharing=4)
    waits, works = (
        predict(by_name("sync-sgd"), profile(overheads=costs, slowdown={1: 1.0, 4: 2.0}), wire, 4)
        for costs in (Overheads(native_s=0.01), Overheads(native_s=0.01, native_core_s=0.05))
    )
    assert waits.step_s == pytest.approx(2 * (0.35 + 6 * 0.01)) and waits.bottleneck == "compute"
    assert works.step_s == pytest.approx(2 * (0.35 + 6 * 0.05)) and works.bottleneck == "cores"


@pytest.mark.parametrize(
    ("recipe", "costs", "messages_s"),
    [
        ("dgc", Overheads(message_s=0.01, framed_s=0.001), 3 * 0.001),
        ("dgc", Overheads(message_s=0.01), 3 * 0.01),
        ("sync-sgd", Overheads(message_s=0.01, framed_s=0.001), 6 * 0.01),
    ],
)
def test_small_payloads_have_a_price_of_their_own(recipe: str, costs: Overheads, messages_s: float) -> None:
    chosen = by_name(recipe, **({"exchange": "ring"} if recipe == "sync-sgd" else {}))
    free = stated_profile({"w": (100, 100)}, chosen, seconds=0.3)
    said = predict(chosen, free.but(overheads=costs), flat(Link(0.0, 1e15)), 4)
    assert said.step_s == pytest.approx(0.3 + messages_s, rel=1e-3)


def test_what_hides_slows_the_passes_down() -> None:
    deep = made_profile({"first": (100, 100), "last": (100, 100)}, forward_s=0.0, backward_s=1.0, batch=8)
    shared = deep.but(overheads=Overheads(native_s=0.05, native_core_s=0.01), slowdown={1: 1.0, 4: 2.0})
    wire = flat(Link(0.0, 1e12), cores=2, sharing=4)
    said = predict(by_name("sync-sgd", grain="tensor"), shared, wire, 4)
    assert said.step_s == pytest.approx(2 * (1.0 + 6 * 0.01 + 6 * 0.05)), "one bucket takes cores, the other is seen"


def test_native_software_hides_behind_the_wire() -> None:
    slow = flat(Link(0.0, BYTES_PER_S))  # 10 ms a round
    for native_s, step_s in ((0.0, 0.35 + 0.06), (0.005, 0.35 + 0.06), (0.02, 0.35 + 0.12)):
        said = predict(by_name("sync-sgd"), profile(overheads=Overheads(native_s=native_s)), slow, 4)
        assert said.step_s == pytest.approx(step_s)


def test_the_phase_that_holds() -> None:
    both = phases((100, by_name("sync-sgd")), (forever, by_name("local-sgd", tau=10)))
    early, late = (predict(both, profile(), WIRE, 4, step=step) for step in (0, 100))
    assert early.tx_nbytes == pytest.approx(10 * late.tx_nbytes)


def test_what_cannot_be_is_one_sentence() -> None:
    small = type(WIRE)(WIRE.tiers, memory_bytes=1000)
    with pytest.raises(PlanError, match=r"layer w needs .* GB .* smaller batch"):
        predict(by_name("sync-sgd"), profile(), small, 2)
    with pytest.raises(PlanError, match="0 workers"):
        predict(by_name("sync-sgd"), profile(), WIRE, 0)
    with pytest.raises(PlanError, match=r"no nn\.Sequential"):
        predict(by_name("layerwise", stages=2), profile(sequential=False), WIRE, 2)
    with pytest.raises(PlanError, match="cut for 3 workers, not for 2"):
        predict(by_name("layerwise", stages=3), profile(), WIRE, 2)
    with pytest.raises(PlanError, match="cannot make 2 stages"):
        predict(by_name("layerwise", stages=2), profile(), WIRE, 2)
