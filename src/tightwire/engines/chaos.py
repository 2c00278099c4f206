"""Real chaos: servers are killed, stopped or cut off while workers train, and everything that was acknowledged counts.

    4 workers ──push──▶ 2–3 servers, two copies    a seed draws who is struck, how, and for how long
                        ✗ killed, started anew     one strike at a time: the next one may lose a server's memory only
                        ‖ stopped, goes on         when two copies are whole again
                        ╳ cable pulled, plugged in

In the end every worker compares how many pushes it was told were taken with how many the centre has (`chaos_worker`).
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tightwire.engines.chaos_ground import Ground, ground
from tightwire.engines.chaos_worker import STRUCK

WORKERS, SERVERS, COPIES = 4, 3, 2
_HEALTH_S = 20.0
_RUN_S = 90.0
_LOOK_EVERY_S = 0.05


class Strike(NamedTuple):
    """What is done, to which place of the chain, and for how long."""

    kind: str  # kill | stop | cut | stop-worker
    place: int  # 0: the head
    for_s: float
    after_s: float


@dataclass
class Verdict:
    """How a run ended."""

    seed: int
    strikes: list[str] = field(default_factory=list)
    lost: int = 0
    twice: int = 0
    hangs: list[str] = field(default_factory=list)
    accuracy: float = 0.0
    pushes: int = 0
    views: int = 0
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Nothing lost, nothing twice, nobody hangs."""
        return not (self.lost or self.twice or self.hangs)


def draw(seed: int, *, lab: bool, strikes: int = 2) -> list[Strike]:
    """A schedule.

    >>> draw(1, lab=False) == draw(1, lab=False)
    True
    """
    rng = random.Random(seed)
    kinds = ("cut", "cut", "kill", "stop") if lab else ("kill", "kill", "stop", "stop-worker")
    return [
        Strike(rng.choice(kinds), rng.randrange(COPIES), 0.3 + 2.2 * rng.random(), 0.2 + 0.6 * rng.random())
        for _ in range(strikes)
    ]


def run(
    folder: Path,
    seed: int,
    *,
    strikes: list[Strike],
    rate: str | None = None,
    steps: int = 100,
    shards: int = 1,
    servers: int = SERVERS,
) -> Verdict:
    """Train under these strikes."""
    verdict = Verdict(seed)
    began_s = time.monotonic()
    with ground(folder, workers=WORKERS, servers=servers, rate=rate) as place:
        place.start_workers(steps=steps, seed=0, copies=COPIES, shards=shards)
        for strike in strikes:
            verdict.strikes.append(_strike(place, strike, shards))
        (folder / STRUCK).touch()
        deadline = time.monotonic() + _RUN_S
        while any(worker.is_alive() for worker in place.begun) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        verdict.views = max((copy["view"] for told in place.statuses().values() for copy in told), default=0)
        _judge(place, verdict)
    verdict.seconds = time.monotonic() - began_s
    return verdict


def _judge(place: Ground, verdict: Verdict) -> None:
    told: list[dict[str, Any]] = []
    for rank, worker in enumerate(place.begun):
        path = place.folder / f"rank-{rank}.json"
        if worker.is_alive() or not path.exists():
            how = "still runs" if worker.is_alive() else f"ended with {worker.exitcode}"
            verdict.hangs.append(f"worker {rank} {how}: {_last_line(place.folder / f'rank-{rank}.log')}")
        else:
            told.append(json.loads(path.read_text(encoding="utf-8")))
    for one in told:
        verdict.pushes += one["steps"]
        for counted in one["marks"]:
            verdict.lost += max(0, round(one["steps"] - counted))
            verdict.twice += max(0, round(counted - one["steps"]))
    verdict.accuracy = sum(one["accuracy"] for one in told) / max(1, len(told))


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1][:300] if lines else "it said nothing"


# ── strikes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _strike(place: Ground, strike: Strike, shards: int) -> str:
    """Strike once all copies are whole; says what was done."""
    chain = _whole(place, shards, _HEALTH_S)
    if chain is None:
        return f"no {strike.kind}: the run was over, or never had {COPIES} whole copies"
    time.sleep(strike.after_s)
    number = chain[strike.place % len(chain)]
    if strike.kind == "stop-worker":
        _stop(place.begun[strike.place].pid, min(1.0, strike.for_s))
        return f"worker {strike.place} stopped for {min(1.0, strike.for_s):.1f} s"
    where = ("head", "tail")[strike.place]
    if strike.kind == "kill":
        place.servers[number].kill()
        place.servers[number].join()
        time.sleep(strike.for_s / 4)
        place.start_server(number)
        return f"server {number} ({where}) killed, started anew after {strike.for_s / 4:.1f} s"
    if strike.kind == "cut" and place.lab is not None:
        place.lab.cut(place.workers + number)
        try:
            time.sleep(strike.for_s)
        finally:
            place.lab.mend(place.workers + number)
        return f"server {number} ({where}) cut off for {strike.for_s:.1f} s"
    _stop(place.servers[number].pid, strike.for_s)
    return f"server {number} ({where}) stopped for {strike.for_s:.1f} s"


def _stop(pid: int | None, for_s: float) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(for_s)
    finally:
        os.kill(pid, signal.SIGCONT)


def _whole(place: Ground, shards: int, timeout_s: float) -> list[int] | None:
    """The servers of the first shard's chain, once every member of every chain has everything; None if not in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and all(worker.is_alive() for worker in place.begun):
        copies = [copy for told in place.statuses().values() for copy in told]
        chains = [_chain([copy for copy in copies if copy["shard"] == shard]) for shard in _shards(copies)]
        if len(chains) == shards and all(len(chain) == COPIES for chain in chains):
            return [place.listens.index(server) for server in chains[0]]
        time.sleep(_LOOK_EVERY_S)
    return None


def _shards(copies: list[dict[str, Any]]) -> list[str]:
    return sorted({copy["shard"] for copy in copies})


def _chain(copies: list[dict[str, Any]]) -> list[str]:
    """The servers of the newest view, if all of them know it and have caught up in it."""
    newest = max(copies, key=lambda copy: copy["view"])
    ready = [[c["server"], c["life"]] for c in copies if c["view"] == newest["view"] and c["caught_up"]]
    return [server for server, _ in newest["chain"]] if all(member in ready for member in newest["chain"]) else []
