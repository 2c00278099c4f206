"""Ports that are shared unevenly: no byte is lost, weights are found again, and nobody keeps step by chance."""

from dataclasses import replace

import pytest

from tightwire.plan.cluster import flat, parse_link
from tightwire.plan.cost import predict
from tightwire.plan.engine import Engine
from tightwire.plan.made import made_profile
from tightwire.plan.network import Network
from tightwire.plan.profile import Overheads, Profile
from tightwire.plan.uneven import shared, unevenness
from tightwire.recipes.catalogue import by_name

LINK = parse_link("1gbit")
NBYTES = 10**6
ALONE_S = NBYTES / LINK.bytes_per_s


def race(uneven: float, seed: int, workers: int = 4) -> list[float]:
    """When messages of all others to the first worker, begun together, have arrived."""
    engine, arrived = Engine(), list[float]()
    network = Network(engine, flat(LINK), uneven=uneven, seed=seed)
    for rank in range(1, workers):
        network.send(rank, 0, NBYTES, lambda _: arrived.append(engine.now))
    engine.run()
    return arrived


def profile(**costs: float) -> Profile:
    made = made_profile({"w": (1000, 1000)}, forward_s=0.01, backward_s=0.02, batch=32)
    return made.but(overheads=replace(Overheads(), **costs), slowdown={1: 1.0, 2: 1.0, 4: 2.0})


@pytest.mark.parametrize("seed", range(5))
def test_a_port_is_never_idle_however_it_is_shared(seed: int) -> None:
    assert max(race(0.5, seed)) == pytest.approx(3 * ALONE_S)
    assert min(race(0.5, seed)) < 2.99 * ALONE_S


def test_the_deviation_of_the_weights_is_found_again() -> None:
    found = unevenness([race(0.3, seed) for seed in range(300)], ALONE_S)
    assert found == pytest.approx(0.3, rel=0.1)
    assert unevenness([race(0.0, 0)], ALONE_S) == pytest.approx(0.0, abs=1e-6)


def test_twice_the_share_is_half_the_time() -> None:
    assert shared([1.5, 2.0], 1.0) == pytest.approx([1.0, 0.5])


def test_hardsync_hides_answers_behind_questions_where_sharing_is_uneven() -> None:
    even, uneven = (predict(by_name("hardsync"), profile(uneven=u), flat(LINK), 4).step_s for u in (0.0, 0.4))
    assert 0.7 * even < uneven < 0.97 * even


def test_what_is_done_beside_the_wire_costs_only_who_shares_cores() -> None:
    own, crowded = flat(LINK), flat(LINK, cores=2, sharing=4)
    for cluster, least, most in ((own, 1.0, 1.001), (crowded, 1.02, 2.0)):
        without = predict(by_name("easgd", tau=4), profile(), cluster, 4).step_s
        beside = profile(ask_core_byte_s=4e-9, keep_core_byte_s=4e-9)
        assert least <= predict(by_name("easgd", tau=4), beside, cluster, 4).step_s / without <= most


def test_software_slower_than_the_wire_is_waited_for() -> None:
    without = predict(by_name("asgd"), profile(), flat(LINK), 2).step_s
    slow = predict(by_name("asgd"), profile(ask_core_byte_s=1e-7), flat(LINK), 2).step_s
    assert slow > 2 * without
