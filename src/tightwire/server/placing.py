"""Which servers keep which shards: chains of equal length, spread evenly, with as few moves as that takes.

shards a b c d on servers 1 2 3, two copies of each     1: a b d   2: a c d   3: b c       (a load is a copy)
server 2 leaves                                         1: a b c d             3: a b c d

Then who leads: the first of a chain answers all of its workers, so those places are spread evenly too. Where copies
are, they can be: if each server of a chain led 1/r of its shard, all would lead equally much up to 1/r, and a flow in
whole numbers has no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def rebalance(
    chains: Mapping[str, Sequence[str]], servers: Sequence[str], *, replicas: int
) -> dict[str, tuple[str, ...]]:
    """Who should keep each shard, its head first. Loads differ by one copy at most, and by one head.

    >>> rebalance({"a": ["1", "2"], "b": ["2", "1"]}, ["1", "3"], replicas=2)
    {'a': ('3', '1'), 'b': ('1', '3')}
    """
    wanted = {
        shard: [server for server in chain if server in servers][:replicas] for shard, chain in chains.items()
    }  # fmt: skip
    for chain in wanted.values():
        while len(chain) < min(replicas, len(servers)):
            chain.append(min((s for s in servers if s not in chain), key=lambda s: _load(wanted, s)))
    while servers and (move := _move(wanted, servers)) is not None:
        shard, busy, idle = move
        wanted[shard].remove(busy)
        wanted[shard].append(idle)
    while (relay := _relay(wanted, servers)) is not None:
        for shard, leader in relay:
            wanted[shard].remove(leader)
            wanted[shard].insert(0, leader)
    return {shard: tuple(chain) for shard, chain in wanted.items()}


def _move(wanted: Mapping[str, Sequence[str]], servers: Sequence[str]) -> tuple[str, str, str] | None:
    """A shard, the busiest server that keeps it, and the idlest that does not; None if loads are even."""
    busy = max(servers, key=lambda s: (_load(wanted, s), s))
    idle = min(servers, key=lambda s: (_load(wanted, s), s))
    if _load(wanted, busy) - _load(wanted, idle) < 2:
        return None
    movable = [shard for shard, chain in wanted.items() if busy in chain and idle not in chain]
    return min(movable, key=lambda shard: (wanted[shard].index(busy), shard)), busy, idle  # a head's load is larger


def _load(wanted: Mapping[str, Sequence[str]], server: str) -> int:
    return sum(server in chain for chain in wanted.values())


def _relay(wanted: Mapping[str, Sequence[str]], servers: Sequence[str]) -> list[tuple[str, str]] | None:
    """Shards and their new heads, so that a server leads one less and another, with two less or more, one more."""
    leads = {server: sum(chain[0] == server for chain in wanted.values() if chain) for server in servers}
    for busy in sorted(servers, key=lambda s: (-leads[s], s)):
        ways: dict[str, list[tuple[str, str]]] = {busy: []}
        for server in (queue := [busy]):
            if leads[server] <= leads[busy] - 2:
                return ways[server]
            for shard, chain in sorted(wanted.items()):
                for other in chain[1:] if chain and chain[0] == server else ():
                    if other not in ways:
                        ways[other] = [*ways[server], (shard, other)]
                        queue.append(other)
    return None
