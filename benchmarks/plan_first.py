"""Whether the recipe that a plan advises is the fastest: ten cases, every candidate that could be measured.

    python -m benchmarks.plan_first                              cases that are not done yet
    python -m benchmarks.plan_first --only 1024-100mbit          these again; --anew: all of them again

Two networks at five rates, four workers. In each case the workers profile the network, the first of them ranks the
recipes that take the steps of synchronous SGD, and all train with rows of that ranking in turn: the advised one, the
four that are predicted to be fastest, whatever is predicted to take up to twice as long as the fastest, and the first
beyond that. What may still win is measured a second time, in the opposite order. What counts: the measured step of the
advised recipe over that of the fastest. Rows that were not measured say so. Needs root for the lab.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

import tightwire as tw
from benchmarks.costs import TRIES, coded, codings, medians, messages
from benchmarks.harness import RESULTS, in_processes, write
from benchmarks.pace import common, compute_together
from tightwire.links.malloc import keep_memory
from tightwire.plan.candidates import Candidate, candidates
from tightwire.plan.cluster import PERFECT, Link, flat, parse_link
from tightwire.plan.measure import profile_model
from tightwire.plan.profile import Profile
from tightwire.plan.search import rank
from tightwire.recipes.catalogue import by_name

WORKERS, BATCH = 4, 64
WIDTHS = (256, 1024)
RATES = {"loopback": None, "1gbit": "1gbit", "100mbit": "100mbit", "20mbit": "20mbit", "5mbit": "5mbit"}
CASES = {f"{width}-{rate}": (width, RATES[rate]) for width in WIDTHS for rate in RATES}
NAMES = ("sync-sgd", "half", "fixed-point", "qsgd", "terngrad", "one-bit", "ef-sign", "powersgd", "top-k", "dgc")
GOOD = 1.10  # the advised recipe may take so much of the fastest one's time
TOP, SPREAD, CLOSE = 4, 2.0, 1.25  # measured in any case; up to this ratio predicted; measured twice
ROUNDS, ROUND_S = 3, 0.6
CASE_TIMEOUT_S = 600  # a case that takes longer is given up; at 5 Mbit/s every start sends 12 MB of weights, twice


def network(width: int) -> nn.Sequential:
    """Three hidden layers."""
    torch.manual_seed(0)
    layers = [nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def batch() -> tuple[Tensor, Tensor]:
    """Numbers that look like a batch."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(BATCH, 784, generator=generator), torch.randint(10, (BATCH,), generator=generator)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer of every contestant."""
    return torch.optim.SGD(model.parameters(), lr=0.001)


def contest(width: int, rate: str | None, names: tuple[str, ...]) -> dict[str, Any]:
    """Rank by rank: profile, one ranking for all, then every row of it measured."""
    keep_memory()
    dist.init_process_group("gloo")
    link = PERFECT if rate is None else parse_link(rate)
    rows = agreed(profiled(width, names, link), link, names)
    tried = chosen(rows)
    for row in tried:
        row["rounds"] = measured(row, width)
    best = min(statistics.median(row["rounds"]) for row in tried)
    for row in reversed(tried):
        if row["advised"] or statistics.median(row["rounds"]) <= CLOSE * best:
            row["rounds"] += measured(row, width)
    for row in tried:
        row["measured_s"] = statistics.median(row["rounds"])
    dist.destroy_process_group()
    return {"rows": rows, **verdict(tried)}


def chosen(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What could be the fastest, and one that should not be; in the order of their predictions."""
    ordered = sorted(rows, key=lambda row: float(row["predicted_s"]))
    least = ordered[0]["predicted_s"]
    near = sum(row["predicted_s"] <= SPREAD * least for row in ordered)
    return [row for place, row in enumerate(ordered) if row["advised"] or place < max(TOP, near + 1)]


def profiled(width: int, names: tuple[str, ...], link: Link) -> Profile:
    """One worker alone, all at once, and what messages and codecs cost between them."""
    model, data = network(width), batch()
    found: Profile | None = None
    for turn in range(WORKERS):
        if dist.get_rank() == turn:
            found = profile_model(model, data, F.cross_entropy, sgd(model), name=f"mlp-{width}")
        dist.barrier()
    assert found is not None
    slow = max(1.0, compute_together(model, data, times=5) / found.compute_s)
    recipes = [one.recipe for one in candidates(WORKERS, names=names)]
    tries = []
    for _ in range(TRIES):
        before_s = compute_together(model, data, times=1)
        timed = codings(model, data, recipes, found)
        tries.append(coded(found, timed, (before_s + compute_together(model, data, times=1)) / 2).codings)
    tiny = nn.Linear(1, 1)
    with tw.join(by_name("sync-sgd"), tiny, sgd(tiny)) as wire:
        costs = messages(wire._worker.transport, link, found, model, data)
    usual = {key: medians([one[key] for one in tries]) for key in tries[0]}
    return found.but(slowdown={1: 1.0, WORKERS: slow}, overheads=costs, codings=usual)


def measured(row: dict[str, Any], width: int) -> list[float]:
    """Seconds of a step of all workers, round by round; one round where a step takes longer than all should."""
    recipe = Candidate(row["name"], tuple(row["params"].items())).recipe
    model, (x, y) = network(width), batch()
    with tw.join(recipe, model, sgd(model)) as wire:

        def steps(count: int) -> float:
            dist.barrier()
            start = time.perf_counter()
            for _ in range(count):
                F.cross_entropy(model(x), y).backward()
                wire.step()
            return common((time.perf_counter() - start) / count)

        steps(1)
        once = steps(1)
        count = max(1, min(200, round(ROUND_S / once)))
        found = [steps(count) for _ in range(1 if once > ROUNDS * ROUND_S else ROUNDS)]
        wire.drain()
    return found


def agreed(profile: Profile, link: Link, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Rank 0's ranking, which all take."""
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 0:
        found = rank(profile, flat(link, cores=os.cpu_count(), sharing=WORKERS), WORKERS, names=names)
        rows = [
            {"name": row.candidate.name, "params": dict(row.candidate.params), "predicted_s": row.prediction.step_s,
             "advised": row is found.advised, "bottleneck": row.prediction.bottleneck}
            for row in found.rows
        ]  # fmt: skip
        store.set("ranking", json.dumps(rows))
    told: list[dict[str, Any]] = json.loads(store.get("ranking"))
    return told


def verdict(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The advised recipe against the fastest."""
    advised = next(row for row in rows if row["advised"])
    best = min(rows, key=lambda row: float(row["measured_s"]))
    ratio: float = advised["measured_s"] / best["measured_s"]
    return {"advised": advised["name"], "fastest": best["name"], "ratio": ratio, "good": ratio <= GOOD}


def in_time(case: str, names: tuple[str, ...]) -> dict[str, Any] | None:
    """One case; None, and a line that says so, if it takes too long."""

    def give_up(*_: object) -> None:
        raise TimeoutError

    width, rate = CASES[case]
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(CASE_TIMEOUT_S)
    try:
        found: dict[str, Any] = in_processes(WORKERS, contest, width, rate, names, lab=rate)
    except TimeoutError:
        print(f"{case} took more than {CASE_TIMEOUT_S} s (CASE_TIMEOUT_S) and was given up", file=sys.stderr)
        return None
    finally:
        signal.alarm(0)
    return found


def main() -> None:
    """Measure what is missing, then put all cases together."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help=f"measure these again, and nothing else: {', '.join(CASES)}")
    parser.add_argument("--anew", action="store_true", help="measure all cases again")
    parser.add_argument("--recipes", default=",".join(NAMES), help="fewer than all")
    asked = parser.parse_args()
    named = [case for case in asked.only.split(",") if case]
    if unknown := set(named) - set(CASES):
        parser.error(f"no case is called {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    names = tuple(asked.recipes.split(","))
    done: dict[str, Any] = {}
    for case in CASES:
        path = RESULTS / f"plan_first_{case}.json"
        if case in named or (not named and (asked.anew or not path.exists())):
            start = time.perf_counter()
            found = in_time(case, names)
            if found is not None:
                took = {"case": case, "workers": WORKERS, "batch": BATCH, "took_s": time.perf_counter() - start}
                write("plan_first", {**took, **found}, f"_{case}")
        if path.exists():
            done[case] = json.loads(path.read_text(encoding="utf-8"))
    if done:
        keys = ("advised", "fastest", "ratio", "good")
        short = {case: {key: record[key] for key in keys} for case, record in done.items()}
        write("plan_first", {"cases": short, "good": sum(one["good"] for one in short.values()), "of": len(short)})


if __name__ == "__main__":
    main()
