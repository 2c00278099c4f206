"""The ranking: complete, honest about ties, plain where plain is best."""

import pytest

from tests.plan.stated import link, profile
from tightwire.plan.candidates import Candidate, candidates
from tightwire.plan.cluster import Cluster, Link, Tier
from tightwire.plan.errors import PlanError
from tightwire.plan.kinds import KINDS, keeps, kind_of
from tightwire.plan.search import ERROR, TIME, Aim, Ranking, evaluate, gentlest, plainest_best, rank
from tightwire.recipes.catalogue import CATALOGUE

ASKING = ("poseidon", "project-adam")  # their bytes follow from batches, which a stated profile has none of


@pytest.fixture(scope="module")
def slow() -> Ranking:
    return rank(profile(), link("10mbit"), 4, names=[name for name in CATALOGUE if name not in ASKING])


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_every_recipe_is_predicted_or_refused_with_a_reason(workers: int) -> None:
    found = rank(profile(workers), link("1gbit"), workers)
    ranked = {row.candidate.name for row in found.rows}
    refused = dict(found.refused)
    assert ranked | set(refused) == set(CATALOGUE)
    assert not ranked & set(refused)
    assert all(len(why) > 20 for why in refused.values())
    assert all(row.prediction.step_s > 0 and row.value > 0 for row in found.rows)


def test_it_says_all_reduce_where_the_wire_is_fast() -> None:
    found = rank(profile(), link("100gbit"), 4)
    assert str(found.first.candidate) == str(found.advised.candidate) == "sync-sgd"


def test_a_slow_wire_advises_compression_that_takes_the_same_steps(slow: Ranking) -> None:
    advised = slow.advised
    assert advised.candidate.kind == "rounded"
    plain = slow.row("sync-sgd")
    assert plain is not None and advised.value < plain.value / 3
    assert all(advised.value <= row.value * (1 + ERROR) for row in slow.rows if keeps(row.candidate.kind))


def test_the_first_is_not_beaten_by_more_than_the_error_and_the_rest_is_in_order(slow: Ranking) -> None:
    able = [row for row in slow.rows if not CATALOGUE[row.candidate.name].fails_on_sorted]
    assert slow.first.value <= min(row.value for row in able) * (1 + ERROR)
    rest = [row.value for row in slow.rows[1:]]
    assert rest == sorted(rest)


def test_what_never_exchanges_is_ranked_but_not_first(slow: Ranking) -> None:
    shot = slow.row("one-shot-average")
    assert shot is not None and shot.prediction.tx_nbytes == 0
    assert slow.first.candidate.name != "one-shot-average"


def test_a_tie_goes_to_the_plainer(slow: Ranking) -> None:
    equal = [row for row in slow.rows if row.candidate.name in ("lars", "large-minibatch", "sync-sgd", "ddl")]
    assert len(equal) == 4
    assert plainest_best(equal).candidate.name == "sync-sgd"


def test_a_recipe_stands_with_its_gentlest_setting_that_is_as_good_as_its_best() -> None:
    found = {rate: rank(profile(), link(rate), 4).row("local-sgd") for rate in ("100gbit", "1mbit")}
    taus = {rate: dict(row.candidate.params)["tau"] for rate, row in found.items() if row is not None}
    assert taus == {"100gbit": 2, "1mbit": 50}


def test_gentlest_takes_the_first_within_the_error(slow: Ranking) -> None:
    rows = sorted(slow.rows, key=lambda row: -row.value)
    assert gentlest(rows).value <= min(row.value for row in rows) * (1 + ERROR)


def test_objectives_differ() -> None:
    bytes_ = rank(profile(), link("100gbit"), 4, aim=Aim("bytes", 1000))
    sent = [row.value for row in bytes_.rows[1:]]
    assert sent == sorted(sent)
    assert bytes_.advised.prediction.tx_nbytes < bytes_.row("sync-sgd").prediction.tx_nbytes / 10  # type: ignore[union-attr]
    row = bytes_.advised
    assert row.value == pytest.approx(4 * row.prediction.tx_nbytes * 1000 / row.prediction.batch)


def test_a_price_is_paid_for_every_worker() -> None:
    cheap = link("1gbit")
    dear = Cluster(cheap.tiers, price_per_hour=3.0)
    aim = Aim("cost", 10**6)
    one, four = (rank(profile(), dear, n, aim=aim, names=["sync-sgd"]).first for n in (1, 4))
    hours = 10**6 / one.prediction.samples_per_s / 3600
    assert one.value == pytest.approx(3 * hours)
    assert four.value == pytest.approx(4 * 3 * 10**6 / four.prediction.samples_per_s / 3600)
    assert four.value > one.value  # exchanging is never free


def test_names_limit_the_search_and_unknown_ones_are_refused() -> None:
    found = rank(profile(), link("1gbit"), 4, names=["dgc", "sync-sgd"])
    assert {row.candidate.name for row in found.rows} == {"dgc", "sync-sgd"}
    with pytest.raises(ValueError, match="did you mean dgc"):
        rank(profile(), link("1gbit"), 4, names=["dgcc"])


def test_no_workers_are_refused() -> None:
    with pytest.raises(PlanError, match="at least 1"):
        rank(profile(), link("1gbit"), 0)


def test_hosts_give_rings_their_first_dimension() -> None:
    near = Cluster((Tier("host", 4, Link(1e-6, 1e10)), Tier("all", 0, Link(1e-4, 1e8))))
    found = rank(profile(8), near, 8, names=["ddl", "sync-sgd"])
    ddl = found.row("ddl")
    ring = evaluate(Candidate("sync-sgd", (("exchange", "ring"),)), profile(8), near, 8, aim=TIME)
    assert ddl is not None and ddl.candidate == Candidate("ddl", (("dims", "4x2"),))
    assert ddl.value < 0.85 * ring.value


def test_every_candidate_can_be_made_and_has_a_kind() -> None:
    for workers in (1, 2, 4, 64):
        for one in candidates(workers):
            assert kind_of(one.recipe) in KINDS
            assert str(one).startswith(one.name)
