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
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

import tightwire as tw
from benchmarks.harness import RESULTS, in_processes, write
from tightwire.algebra.recipe import AnyRecipe
from tightwire.links.malloc import keep_memory
from tightwire.plan.calibrate import calibrate
from tightwire.plan.candidates import Candidate, candidates
from tightwire.plan.cluster import PERFECT, Link, flat, parse_link
from tightwire.plan.codings import with_codings
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
ROUNDS, ROUND_S = 3, 0.8


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
    rows = agreed(profiled(width, names), link, names)
    for row in rows:
        candidate = Candidate(row["name"], tuple(row["params"].items()))
        row["measured_s"] = measured(candidate.recipe, width)
    dist.destroy_process_group()
    return {"rows": rows, **verdict(rows)}


def profiled(width: int, names: tuple[str, ...]) -> Profile:
    """One worker alone, all at once, and what messages cost between them."""
    model, data = network(width), batch()
    found: Profile | None = None
    for turn in range(WORKERS):
        if dist.get_rank() == turn:
            found = profile_model(model, data, F.cross_entropy, sgd(model), name=f"mlp-{width}")
        dist.barrier()
    assert found is not None
    slow = max(1.0, together(model, data) / found.compute_s)
    coded = with_codings(found, model, [one.recipe for one in candidates(WORKERS, names=names)], workers=WORKERS)
    tiny = nn.Linear(1, 1)
    with tw.join(by_name("sync-sgd"), tiny, sgd(tiny)) as wire:
        costs = calibrate(wire._worker.transport, slow=slow)
    # codecs were timed by all at once, as they run
    codings = {
        key: type(one)(
            **{**vars(one), **{part: getattr(one, part) / slow for part in ("encode_s", "decode_s", "settle_s")}}
        )
        for key, one in coded.codings.items()
    }
    return coded.but(slowdown={1: 1.0, WORKERS: slow}, overheads=costs, codings=codings)


def together(model: nn.Module, data: tuple[Tensor, Tensor]) -> float:
    """Forward and backward pass of all workers at once: the usual mean."""
    times = []
    for _ in range(8):
        dist.barrier()
        start = time.perf_counter()
        F.cross_entropy(model(data[0]), data[1]).backward()
        times.append(common(time.perf_counter() - start))
    return statistics.median(times[1:])


def measured(recipe: AnyRecipe, width: int) -> float:
    """Seconds of a step of all workers: the usual one of some rounds."""
    model, (x, y) = network(width), batch()
    with tw.join(recipe, model, sgd(model)) as wire:

        def steps(count: int) -> float:
            dist.barrier()
            start = time.perf_counter()
            for _ in range(count):
                F.cross_entropy(model(x), y).backward()
                wire.step()
            return common((time.perf_counter() - start) / count)

        steps(2)
        count = max(2, min(200, round(ROUND_S / steps(2))))
        found = statistics.median(steps(count) for _ in range(ROUNDS))
        wire.drain()
    return found


def common(value: float) -> float:
    """The mean over ranks."""
    heard = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(heard)
    return float(heard) / WORKERS


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
    ratio = advised["measured_s"] / best["measured_s"]
    return {"advised": advised["name"], "fastest": best["name"], "ratio": ratio, "good": ratio <= GOOD}


def main() -> None:
    """Measure what is missing, then put all cases together."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--anew", action="store_true", help="measure cases again that are done")
    parser.add_argument("--recipes", default=",".join(NAMES), help="fewer than all")
    asked = parser.parse_args()
    names = tuple(asked.recipes.split(","))
    done: dict[str, Any] = {}
    for case, (width, rate) in CASES.items():
        path = RESULTS / f"plan_first_{case}.json"
        if asked.case in (None, case) and (asked.anew or not path.exists()):
            found = in_processes(WORKERS, contest, width, rate, names, lab=rate)
            write("plan_first", {"case": case, "workers": WORKERS, "batch": BATCH, **found}, f"_{case}")
        if path.exists():
            done[case] = json.loads(path.read_text(encoding="utf-8"))
    if len(done) == len(CASES):
        short = {case: {key: done[case][key] for key in ("advised", "fastest", "ratio", "good")} for case in done}
        write("plan_first", {"cases": short, "good": sum(one["good"] for one in short.values()), "of": len(short)})


if __name__ == "__main__":
    main()
