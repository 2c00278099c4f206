"""A plan in words, as data and as a page."""

import json
import re

import pytest

from tests.plan.stated import link, profile
from tightwire.plan.advice import Plan, advice, as_data
from tightwire.plan.breakeven import sweep
from tightwire.plan.page import page
from tightwire.plan.search import Aim, rank
from tightwire.plan.simulate import simulate

NAMES = ["sync-sgd", "dgc", "local-sgd", "asgd", "layerwise", "hogwild"]


def plan(rate: str, aim: Aim = Aim()) -> Plan:  # noqa: B008
    """Six recipes on up to four workers."""
    cluster = link(rate)
    rankings = tuple(rank(profile(), cluster, workers, aim=aim, names=NAMES) for workers in (1, 4))
    return Plan(profile(), cluster, rankings, sweep(profile(), cluster, rankings[-1]))


def test_a_fast_wire_is_told_to_use_plain_all_reduce() -> None:
    first, second, *_ = advice(plan("100gbit"))
    assert "use sync-sgd (plain all-reduce)" in first
    assert second == "Nothing that takes the same steps is more than 10% better."


def test_a_slow_wire_is_told_what_gains_how_much_and_what_that_changes() -> None:
    text = " ".join(advice(plan("1mbit")))
    assert "use dgc" in text and "times better than plain all-reduce (limited by the wire)" in text
    assert "times better still" in text and "measure what accuracy that costs" in text
    assert re.search(r"below [\d.]+ [MG]bit/s use dgc.*; above it sync-sgd", text)


def test_workers_that_are_slower_together_than_one_are_told_so() -> None:
    found = plan("0.1mbit")
    slower = found.chosen.advised.prediction.speedup < 1
    assert slower and "One worker alone is faster" in " ".join(advice(found))
    assert "One worker alone" not in " ".join(advice(plan("100gbit")))


def test_the_cheapest_number_of_workers_is_chosen_for_cost() -> None:
    found = plan("1gbit", Aim("cost", 10**6))
    assert found.chosen.workers == 1
    assert plan("1gbit").chosen.workers == 4


def test_one_worker_is_told_that_there_is_nothing_to_choose() -> None:
    (line,) = advice(plan("1gbit", Aim("cost", 10**6)))
    assert line.startswith("One worker has nobody to exchange with: 50 ms a step")


def test_the_data_is_json_and_complete() -> None:
    found = json.loads(json.dumps(as_data(plan("100mbit")), allow_nan=False))
    assert [ranking["workers"] for ranking in found["rankings"]] == [1, 4]
    last = found["rankings"][-1]
    assert {row["name"] for row in last["rows"]} | {one["recipe"] for one in last["refused"]} == set(NAMES)
    assert found["use"]["optimisation"] in ("same", "rounded")
    assert found["use"]["parts"]["compute_s"] > 0


@pytest.fixture(scope="module")
def html() -> str:
    made = plan("100mbit")
    trace = simulate(made.chosen.advised.candidate.recipe, made.profile, made.cluster, 4, steps=2)
    return page(made, [trace], "tightwire train --recipe '<x>'")


def test_the_page_loads_nothing_and_draws_all_pictures(html: str) -> None:
    assert "default-src 'none'" in html
    assert not re.findall(r'(?:src|href)="(?!data:)[^"]+"', html.partition('<script id="plotly">')[0])
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', html, re.S)[1])  # type: ignore[index]
    keys = [figure["key"] for figure in data["figures"]]
    assert keys[:3] == ["speedup", "bandwidth", "parts"] and keys[3].startswith("timeline")
    assert all(f'id="figure-{key}"' in html for key in keys)


def test_what_comes_from_outside_is_escaped(html: str) -> None:
    assert "'<x>'" not in html and "&#x27;&lt;x&gt;&#x27;" in html


def test_lanes_of_the_timeline_are_the_workers(html: str) -> None:
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', html, re.S)[1])  # type: ignore[index]
    lanes = data["figures"][-1]["layout"]["yaxis"]["categoryarray"]
    assert lanes == [f"worker {rank}" for rank in range(4)]
    computing = next(trace for trace in data["figures"][-1]["data"] if trace["name"] == "computes")
    assert all(base >= 0 and length > 0 for base, length in zip(computing["base"], computing["x"], strict=True))
