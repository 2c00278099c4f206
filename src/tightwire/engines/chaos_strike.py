"""What is done to the servers of a run: killed, stopped, cut off, told to leave; and one more joins.

A strike that costs a server its memory waits until all copies are whole. Servers write down how they do
(`chaos_server`), so that who strikes knows whom, and when.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any, NamedTuple

from tightwire.engines.chaos_ground import Ground

_HEALTH_S = 20.0
_LOOK_EVERY_S = 0.05


class Strike(NamedTuple):
    """What is done, to which place of the chain, and for how long."""

    kind: str  # kill | stop | cut | stop-worker | leave | join
    place: int  # 0: the head
    for_s: float
    after_s: float


def strike_at(place: Ground, strike: Strike, *, shards: int, copies: int) -> str:
    """Strike once all copies are whole; says what was done."""
    chain = _whole(place, shards, copies)
    if chain is None:
        return f"no {strike.kind}: the run was over, or never had {copies} whole copies"
    time.sleep(strike.after_s)
    if strike.kind == "stop-worker":
        _stop(place.begun[strike.place].pid, min(1.0, strike.for_s))
        return f"worker {strike.place} stopped for {min(1.0, strike.for_s):.1f} s"
    if strike.kind == "join":
        return _join(place, shards, copies)
    at = strike.place % len(chain)
    return _strike_server(place, strike, chain[at], f"server {chain[at]} ({'tail' if at else 'head'})")


def _strike_server(place: Ground, strike: Strike, number: int, named: str) -> str:
    match strike.kind:
        case "kill":
            place.servers[number].kill()
            place.servers[number].join()
            return _again(place, number, strike.for_s / 4, f"{named} killed")
        case "leave":
            _signal(place.servers[number].pid, signal.SIGTERM)
            place.servers[number].join(_HEALTH_S)
            if place.servers[number].is_alive():
                return f"no leave: {named} was still needed after {_HEALTH_S:g} s"
            return _again(place, number, strike.for_s / 4, f"{named} left")
        case "cut" if place.lab is not None:
            place.lab.cut(place.workers + number)
            try:
                time.sleep(strike.for_s)
            finally:
                place.lab.mend(place.workers + number)
            return f"{named} cut off for {strike.for_s:.1f} s"
    _stop(place.servers[number].pid, strike.for_s)
    return f"{named} stopped for {strike.for_s:.1f} s"


def _again(place: Ground, number: int, after_s: float, done: str) -> str:
    time.sleep(after_s)
    place.start_server(number)
    return f"{done}, started anew after {after_s:.1f} s"


def _join(place: Ground, shards: int, copies: int) -> str:
    """One more server that nobody named: it has its share once all copies are whole again."""
    number = place.add_server()
    deadline = time.monotonic() + _HEALTH_S
    while not place.statuses().get(number):
        if time.monotonic() > deadline or not all(worker.is_alive() for worker in place.begun):
            return f"no join: server {number} was given no seat"
        time.sleep(_LOOK_EVERY_S)
    even = shards * copies // len(place.servers)
    while (keeps := sum(place.listens[number] in chain for chain in _chains(place))) < even:
        if time.monotonic() > deadline or not all(worker.is_alive() for worker in place.begun):
            return f"no join: server {number} keeps {keeps} copies, and {even} were its share"
        time.sleep(_LOOK_EVERY_S)
    return f"server {number} joined, and keeps {keeps} of {shards * copies} copies"


def _stop(pid: int | None, for_s: float) -> None:
    _signal(pid, signal.SIGSTOP)
    try:
        time.sleep(for_s)
    finally:
        _signal(pid, signal.SIGCONT)


def _signal(pid: int | None, number: signal.Signals) -> None:
    assert pid is not None
    os.kill(pid, number)


# ── how servers do ────────────────────────────────────────────────────────────────────────────────────────────────


def _whole(place: Ground, shards: int, copies: int) -> list[int] | None:
    """The servers of the first shard's chain, once every member of every chain has everything; None if not in time."""
    deadline = time.monotonic() + _HEALTH_S
    while time.monotonic() < deadline and all(worker.is_alive() for worker in place.begun):
        chains = _chains(place)
        if len(chains) == shards and all(len(chain) == copies for chain in chains):
            return [place.listens.index(server) for server in chains[0]]
        time.sleep(_LOOK_EVERY_S)
    return None


def _chains(place: Ground) -> list[list[str]]:
    copies = [copy for told in place.statuses().values() for copy in told]
    return [_chain([copy for copy in copies if copy["shard"] == shard]) for shard in _shards(copies)]


def _shards(copies: list[dict[str, Any]]) -> list[str]:
    return sorted({copy["shard"] for copy in copies})


def _chain(copies: list[dict[str, Any]]) -> list[str]:
    """The servers of the newest view, if all of them know it and have caught up in it."""
    newest = max(copies, key=lambda copy: copy["view"])
    ready = [[c["server"], c["life"]] for c in copies if c["view"] == newest["view"] and c["caught_up"]]
    return [server for server, _ in newest["chain"]] if all(member in ready for member in newest["chain"]) else []
