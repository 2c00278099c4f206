"""Where the advice changes with bandwidth."""

from itertools import pairwise
from math import inf

import pytest

from tests.plan.stated import link, profile
from tightwire.plan.breakeven import Sweep, say, sweep
from tightwire.plan.kinds import keeps
from tightwire.plan.search import ERROR, rank

NAMES = ["sync-sgd", "dgc", "half", "local-sgd", "hardsync"]


@pytest.fixture(scope="module")
def found() -> Sweep:
    cluster = link("1gbit")
    return sweep(profile(), cluster, rank(profile(), cluster, 4, names=NAMES))


def test_slow_wires_get_compression_and_fast_ones_all_reduce(found: Sweep) -> None:
    assert found.reigns[0].candidate.name == "dgc"
    assert found.reigns[-1].candidate.name == "sync-sgd"
    assert found.reigns[0].low == 0 and found.reigns[-1].high == inf
    assert all(left.high == right.low for left, right in pairwise(found.reigns))


def test_only_what_takes_the_same_steps_competes(found: Sweep) -> None:
    assert all(keeps(reign.candidate.kind) for reign in found.reigns)
    assert {candidate.name for candidate, _ in found.curves} <= {"sync-sgd", "dgc", "half"}


def test_a_crossing_is_where_the_advice_changes(found: Sweep) -> None:
    edge = found.reigns[-1].low
    below, above = (rank(profile(), link("1gbit").scaled(edge * f), 4, names=NAMES).advised for f in (0.9, 1.1))
    assert below.candidate.name == found.reigns[-2].candidate.name
    assert above.candidate.name == "sync-sgd"


def test_curves_fall_with_bandwidth(found: Sweep) -> None:
    for _, values in found.curves:
        assert all(right <= left * (1 + 1e-9) for left, right in pairwise(values))


def test_at_every_point_of_the_curves_the_advised_is_as_good_as_any(found: Sweep) -> None:
    curves = {candidate.name: values for candidate, values in found.curves}
    for at, bandwidth in enumerate(found.bandwidths):
        reign = next(reign for reign in found.reigns if reign.low <= bandwidth < reign.high)
        best = min(values[at] for values in curves.values())
        assert curves[reign.candidate.name][at] <= best * (1 + ERROR) ** 2


def test_the_sentence_names_the_rate_of_the_link(found: Sweep) -> None:
    text = say(found.reigns)
    assert text.startswith("below ") and text.endswith("sync-sgd") and "bit/s" in text
