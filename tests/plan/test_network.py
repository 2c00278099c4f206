"""Ports that messages share: by hand, and nothing is carried faster than a port can."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightwire.plan.cluster import Link, flat
from tightwire.plan.engine import Engine
from tightwire.plan.network import Network, Traffic

ALPHA_S, BYTES_PER_S = 0.5, 100.0
Sent = tuple[float, int, int, int]  # when, from whom, to whom, bytes


def arrivals(messages: list[Sent], *, latency_s: float = ALPHA_S) -> list[float]:
    engine, found = Engine(), dict[int, float]()
    network = Network(engine, flat(Link(latency_s, BYTES_PER_S)))
    for number, (when_s, src, dst, nbytes) in enumerate(messages):

        def send(_: object, to: tuple[int, int, int] = (src, dst, nbytes), number: int = number) -> None:
            network.send(*to, lambda _: found.update({number: engine.now}))

        engine.at(when_s, send)
    engine.run()
    return [found[number] for number in range(len(messages))]


def test_one_message_takes_its_latency_and_its_bytes() -> None:
    assert arrivals([(1.0, 0, 1, 200)]) == pytest.approx([1 + ALPHA_S + 2])
    assert arrivals([(1.0, 0, 1, 0)]) == pytest.approx([1 + ALPHA_S])


def test_who_comes_together_shares_and_ends_together() -> None:
    assert arrivals([(0.0, src, 3, 100) for src in range(3)]) == pytest.approx([3 + ALPHA_S] * 3)
    assert arrivals([(0.0, 3, dst, 100) for dst in range(3)]) == pytest.approx([3 + ALPHA_S] * 3)


def test_who_is_earlier_leaves_twice_as_much_earlier() -> None:
    first, second, third = arrivals([(0.0, 0, 3, 100), (0.1, 1, 3, 100), (0.1, 2, 3, 100)])
    assert (first, second, third) == pytest.approx((2.8 + ALPHA_S, 3.0 + ALPHA_S, 3.0 + ALPHA_S))


def test_a_short_message_does_not_wait_for_a_long_one() -> None:
    long, short = arrivals([(0.0, 0, 2, 1000), (0.0, 1, 2, 10)])
    assert (long, short) == pytest.approx((10.1 + ALPHA_S, 0.2 + ALPHA_S))


def test_directions_and_ports_do_not_disturb_each_other() -> None:
    assert arrivals([(0.0, 0, 1, 100), (0.0, 1, 0, 100), (0.0, 2, 3, 100)]) == pytest.approx([1 + ALPHA_S] * 3)


def test_the_slower_of_two_ports_decides() -> None:
    alone, shared = arrivals([(0.0, 0, 1, 100), (0.0, 0, 2, 300)])
    assert (alone, shared) == pytest.approx((2 + ALPHA_S, 4 + ALPHA_S))
    late = arrivals([(0.0, 0, 1, 100), (0.0, 2, 1, 100), (1.5, 0, 3, 100)])
    assert late == pytest.approx([2 + ALPHA_S, 2 + ALPHA_S, 2.5 + ALPHA_S])  # port 0 was through with its first at 1


@given(
    st.lists(
        st.tuples(
            st.floats(0, 5), st.integers(0, 3), st.integers(4, 6), st.integers(1, 500)
        ),
        min_size=1, max_size=12,
    )
)  # fmt: skip
def test_a_port_that_has_work_does_it_and_no_more(messages: list[Sent]) -> None:
    found = arrivals(messages, latency_s=0.0)
    for when, (start_s, _, _, nbytes) in zip(found, messages, strict=True):
        assert when >= start_s + nbytes / BYTES_PER_S - 1e-6
    for rank in range(7):
        mine = sorted((m for m in messages if rank in m[1:3]), key=lambda m: m[0])
        free_s = 0.0
        for start_s, _, _, nbytes in mine:
            free_s = max(free_s, start_s) + nbytes / BYTES_PER_S  # when a port that never rests has carried all of it
        last = max((when for when, m in zip(found, messages, strict=True) if rank in m[1:3]), default=0.0)
        assert last >= free_s - 1e-6


def test_other_traffic_shares_a_port_too() -> None:
    engine, seen = Engine(), list[float]()
    network = Network(engine, flat(Link(0.0, BYTES_PER_S)))
    network.disturb(Traffic(nbytes=100, every_s=1e9), workers=2)
    network.send(0, 1, 100, lambda _: (seen.append(engine.now), setattr(engine, "over", True)))
    engine.run()
    assert seen == pytest.approx([2.0])
    assert network.by_port()["host 0 out"] == 100
