"""Published numbers: the page is what the code gives, and the claims that must hold do."""

from pathlib import Path

import pytest

from tightwire.plan.published.page import markdown, results
from tightwire.plan.published.paper import Claim, Paper

PAGE = Path(__file__).parents[2] / "docs" / "published.md"


@pytest.fixture(scope="module")
def papers() -> dict[str, Paper]:
    return {paper.name: paper for paper in results()}


def claims(paper: Paper) -> dict[str, Claim]:
    return {claim.what: claim for claim in paper.claims}


def test_the_page_is_what_the_code_gives(papers: dict[str, Paper]) -> None:
    made = markdown(tuple(papers.values()))
    assert PAGE.read_text(encoding="utf-8") == made, "stale: tightwire plan --published -o docs/published.md"


def test_synchronous_rows_follow_from_the_stated_times(papers: dict[str, Paper]) -> None:
    found = claims(papers["Layer-wise partitioning"])
    assert found["synchronous, 4 cards"].low == pytest.approx(1.5, rel=0.05)
    assert found["synchronous, 8 cards"].low == pytest.approx(2.1, rel=0.05)


def test_whole_layers_cannot_give_what_was_printed(papers: dict[str, Paper]) -> None:
    found = claims(papers["Layer-wise partitioning"])
    assert found["layer-wise, 8 cards"].verdict == "cannot be"
    assert found["layer-wise, 8 cards"].high == pytest.approx(2.25, abs=0.01)


def test_payload_ratios_of_dgc_come_out_of_the_codec(papers: dict[str, Paper]) -> None:
    found = claims(papers["Deep Gradient Compression"])
    for model, printed in (("resnet50", 277), ("alexnet", 597), ("lstm-lm", 462)):
        assert found[f"{model}: payload ratio"].high == pytest.approx(printed, rel=0.02)


def test_ages_under_softsync_are_close_to_n(papers: dict[str, Paper]) -> None:
    for claim in papers["Rudra"].claims:
        assert claim.high == pytest.approx(claim.printed, rel=0.1)


def test_every_claim_says_what_it_rests_on(papers: dict[str, Paper]) -> None:
    assert len(papers) == 11
    for paper in papers.values():
        assert paper.cite and paper.stated and paper.claims
        for claim in paper.claims:
            assert 0 < claim.low <= claim.high
            assert claim.open or claim.low == claim.high, f"{paper.name}, {claim.what}: a range of what?"


@pytest.mark.parametrize(
    ("printed", "low", "high", "bound", "verdict"),
    [
        (1.0, 1.05, 1.05, False, "agrees"),
        (1.0, 0.5, 2.0, False, "in the range"),
        (3.0, 1.0, 2.0, True, "cannot be"),
        (3.0, 1.0, 2.0, False, "model -33%"),
        (1.0, 2.0, 3.0, True, "model +100%"),
    ],
)
def test_verdicts(printed: float, low: float, high: float, bound: bool, verdict: str) -> None:
    assert Claim("it", printed, low, high, bound=bound).verdict == verdict
