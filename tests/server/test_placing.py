"""Copies are spread evenly, and nothing moves that may stay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tightwire.server.placing import rebalance

SERVERS = ["a", "b", "c", "d", "e"]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, list[str]], list[str], int]:
    servers = draw(st.lists(st.sampled_from(SERVERS), min_size=1, unique=True))
    chains = draw(st.lists(st.lists(st.sampled_from(SERVERS), unique=True, max_size=3), min_size=1, max_size=8))
    return {str(shard): chain for shard, chain in enumerate(chains)}, servers, draw(st.integers(1, 3))


@given(worlds())
def test_every_shard_has_its_copies_and_loads_are_even(world: tuple[dict[str, list[str]], list[str], int]) -> None:
    chains, servers, replicas = world
    wanted = rebalance(chains, servers, replicas=replicas)
    assert wanted.keys() == chains.keys()
    for chain in wanted.values():
        assert len(set(chain)) == len(chain) == min(replicas, len(servers))
        assert set(chain) <= set(servers)
    loads = [sum(server in chain for chain in wanted.values()) for server in servers]
    assert max(loads) - min(loads) <= 1
    heads = [sum(chain[0] == server for chain in wanted.values()) for server in servers]
    assert max(heads) - min(heads) <= 1


@given(worlds())
def test_what_is_even_stays(world: tuple[dict[str, list[str]], list[str], int]) -> None:
    chains, servers, replicas = world
    wanted = rebalance(chains, servers, replicas=replicas)
    assert rebalance(wanted, servers, replicas=replicas) == wanted


def test_a_server_that_joins_takes_its_share_and_no_more() -> None:
    before = {"0": ("a", "b"), "1": ("b", "a"), "2": ("a", "b")}
    after = rebalance(before, ["a", "b", "c"], replicas=2)
    assert sum("c" in chain for chain in after.values()) == 2
    assert sum(set(after[shard]) != set(before[shard]) for shard in before) == 2
