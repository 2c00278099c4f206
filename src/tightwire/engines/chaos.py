"""Real chaos: servers are struck, leave and join while workers train, and everything that was acknowledged counts.

    4 workers ──push──▶ 2–3 servers, two copies    a seed draws who is struck, how, and for how long
                        ✗ killed, started anew     one strike at a time: the next one may lose a server's memory only
                        ‖ stopped, goes on         when two copies are whole again (`chaos_strike`)
                        ╳ cable pulled, plugged in
                        ◀ leaves, comes back  ▶ one more joins

In the end every worker compares how many pushes it was told were taken with how many the centre has (`chaos_worker`).
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tightwire.engines.chaos_ground import Ground, ground
from tightwire.engines.chaos_strike import Strike, strike_at
from tightwire.engines.chaos_worker import STRUCK

WORKERS, SERVERS, COPIES = 4, 3, 2
_RUN_S = 90.0
_LOOK_EVERY_S = 0.05


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
    """A schedule; every third one has a server that leaves or joins besides.

    >>> draw(1, lab=False) == draw(1, lab=False)
    True
    """
    rng = random.Random(seed)
    kinds = ("cut", "cut", "kill", "stop") if lab else ("kill", "kill", "stop", "stop-worker")

    def one(kinds: tuple[str, ...]) -> Strike:
        return Strike(rng.choice(kinds), rng.randrange(COPIES), 0.3 + 2.2 * rng.random(), 0.2 + 0.6 * rng.random())

    drawn = [one(kinds) for _ in range(strikes)]
    if seed % 3 == 2:
        move = one(("join", "leave"))
        drawn.insert(rng.randrange(strikes + 1), move)
    return drawn


def run(
    folder: Path,
    seed: int,
    *,
    strikes: list[Strike],
    rate: str | None = None,
    steps: int = 100,
    shards: int = 1,
    servers: int = SERVERS,
    copies: int = COPIES,
) -> Verdict:
    """Train under these strikes; with one copy they may be those that leave a server its memory."""
    verdict = Verdict(seed)
    began_s = time.monotonic()
    more = sum(strike.kind == "join" for strike in strikes)
    with ground(folder, workers=WORKERS, servers=servers, rate=rate, more=more) as place:
        place.start_workers(steps=steps, seed=0, copies=copies, shards=shards)
        for strike in strikes:
            verdict.strikes.append(strike_at(place, strike, shards=shards, copies=copies))
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
