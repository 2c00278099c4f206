"""Links in tiers, stated or read from a file."""

from pathlib import Path

import pytest

from tightwire.algebra.errors import TightwireError
from tightwire.plan.cluster import PERFECT, Cluster, Link, Tier, flat, load_cluster, parse_link
from tightwire.plan.errors import PlanError

TOML = """
cores = 2
sharing = 4
[[tiers]]
name = "device"
size = 4
link = "100gbit,5us"
[[tiers]]
name = "host"
size = 0
link = "1gbit,0.2ms"
"""


def test_two_ranks_talk_over_the_innermost_tier_that_holds_both() -> None:
    fast, slow = Link(0.0, 1e9), Link(1e-3, 1e6)
    cluster = Cluster((Tier("device", 2, fast), Tier("host", 0, slow)))
    assert cluster.link(0, 1) is fast and cluster.link(1, 2) is slow
    assert cluster.hosts(5) == (0, 0, 1, 1, 2)
    assert cluster.port(2, 1) == cluster.port(3, 1) != cluster.port(1, 1)
    assert cluster.port(2, 0) != cluster.port(3, 0)
    assert flat(slow).hosts(3) == (0, 1, 2)
    assert cluster.scaled(5.0).outermost.bytes_per_s == 5.0 and cluster.scaled(5.0).link(0, 1) is fast


def test_a_cluster_file_is_read_and_written_back(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(TOML)
    cluster = load_cluster(tmp_path / "c.toml")
    assert (cluster.cores, cluster.sharing, cluster.link(0, 4).latency_s) == (2, 4, pytest.approx(2e-4))
    cluster.save(tmp_path / "c.json")
    assert load_cluster(tmp_path / "c.json") == cluster


@pytest.mark.parametrize(
    "text", ['{"tiers": []}', '{"tiers": [{"name": "x"}]}', "[1]", "{", '{"speeds": 1, "tiers": []}']
)
def test_a_file_that_is_no_cluster_says_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(PlanError):
        load_cluster(tmp_path / "c.json")


def test_links_are_stated_as_in_the_lab() -> None:
    assert parse_link("inf") is PERFECT
    assert parse_link("1gbit").bytes_per_s == pytest.approx(1.25e8 * 1448 / 1514)
    for wrong in ("-1gbit", "fast", "1gbps", "1gbit,-5ms"):
        with pytest.raises(TightwireError):
            parse_link(wrong)
    for bytes_per_s, latency_s in ((0.0, 0.0), (-1.0, 0.0), (1.0, -1.0), (float("nan"), 0.0), (1.0, float("inf"))):
        with pytest.raises(PlanError):
            Link(latency_s, bytes_per_s)


@pytest.mark.parametrize("wrong", [{"tiers": ()}, {"cores": 0}, {"sharing": 0}, {"speed": (0.0,)}])
def test_what_no_cluster_has_is_refused(wrong: dict[str, object]) -> None:
    right: dict[str, object] = {"tiers": flat(PERFECT).tiers}
    with pytest.raises(PlanError):
        Cluster(**{**right, **wrong})  # type: ignore[arg-type]
