"""Whether the recipe that a plan advises is the fastest: ten cases, every candidate measured.

    python -m benchmarks.plan_first [--case 1024-100mbit] [--anew]     all cases, or one; what is done is not repeated

Two networks at five rates, four workers. In each case the workers profile the network, the first of them ranks the
recipes that take the steps of synchronous SGD, and all train with every row of that ranking in turn. What counts: the
measured step of the advised recipe over that of the fastest. Needs root for the lab.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from typing import Any

import torch.distributed as dist

from benchmarks import predict as bench
from benchmarks.harness import RESULTS, in_processes, write
from tightwire.links.malloc import keep_memory
from tightwire.plan.candidates import Candidate, candidates
from tightwire.plan.cluster import PERFECT, flat, parse_link
from tightwire.plan.search import rank

WIDTHS = (256, 1024)
RATES = {"loopback": None, "1gbit": "1gbit", "100mbit": "100mbit", "20mbit": "20mbit", "5mbit": "5mbit"}
CASES = {f"{width}-{rate}": (width, RATES[rate]) for width in WIDTHS for rate in RATES}
NAMES = ("sync-sgd", "half", "fixed-point", "qsgd", "terngrad", "one-bit", "ef-sign", "powersgd", "top-k", "dgc")
GOOD = 1.10  # the advised recipe may take so much of the fastest one's time


def contest(width: int, rate: str | None) -> dict[str, Any]:
    """Rank by rank: profile, one ranking for all, then every row of it measured."""
    bench.WIDTH = width
    keep_memory()
    dist.init_process_group("gloo")
    link = PERFECT if rate is None else parse_link(rate)
    wanted = {str(one): one.recipe for one in candidates(bench.WORKERS, names=NAMES)}
    profile = bench.together_profiled(wanted, False, link)
    rows = agreed(profile, link)
    for row in rows:
        candidate = Candidate(row["name"], tuple(row["params"].items()))
        row["measured_s"] = statistics.median(step_s for _, step_s in bench.measure(candidate.recipe)["rounds"])
    dist.destroy_process_group()
    return {"rows": rows, **verdict(rows)}


def agreed(profile: Any, link: Any) -> list[dict[str, Any]]:
    """Rank 0's ranking, which all take."""
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 0:
        found = rank(profile, flat(link, cores=os.cpu_count(), sharing=bench.WORKERS), bench.WORKERS, names=NAMES)
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
    ratio = advised["measured_s"] / best["measured_s"]
    return {"advised": advised["name"], "fastest": best["name"], "ratio": ratio, "good": ratio <= GOOD}


def main() -> None:
    """Measure what is missing, then put all cases together."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--anew", action="store_true", help="measure cases again that are done")
    asked = parser.parse_args()
    done: dict[str, Any] = {}
    for case, (width, rate) in CASES.items():
        path = RESULTS / f"plan_first_{case}.json"
        if asked.case in (None, case) and (asked.anew or not path.exists()):
            found = in_processes(bench.WORKERS, contest, width, rate, lab=rate)
            write("plan_first", {"case": case, "workers": bench.WORKERS, "batch": bench.BATCH, **found}, f"_{case}")
        if path.exists():
            done[case] = json.loads(path.read_text(encoding="utf-8"))
    if len(done) == len(CASES):
        short = {case: {key: done[case][key] for key in ("advised", "fastest", "ratio", "good")} for case in done}
        write("plan_first", {"cases": short, "good": sum(one["good"] for one in short.values()), "of": len(short)})


if __name__ == "__main__":
    main()
