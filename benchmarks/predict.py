"""Predictions beside measurements: the step of many recipes on loopback and between four hosts of the lab.

    python -m benchmarks.predict                                         cases that are not done yet
    python -m benchmarks.predict --only loopback-plain,1gbit-served      these again; --anew: all of them again

In each case four workers profile one network together, measure what messages and codecs cost, and then train with every
recipe in turn, in short rounds; how fast the machine is at the moment is measured before and after each round. The
prediction is that of `tightwire.plan.cost.predict` with the stated link. Needs root for the lab.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

import tightwire as tw
from benchmarks.costs import coded, codings, medians, messages, questions
from benchmarks.harness import RESULTS, in_processes, write
from benchmarks.pace import common, compute_together, in_the_long_run, keeping_step
from benchmarks.predict_plot import draw
from tightwire.algebra.recipe import AnyRecipe, leaves
from tightwire.links.malloc import keep_memory
from tightwire.plan.cluster import PERFECT, Cluster, Link, flat, parse_link
from tightwire.plan.cost import predict
from tightwire.plan.measure import profile_model
from tightwire.plan.profile import Profile
from tightwire.recipes.catalogue import by_name

WORKERS, BATCH, WIDTH, TAU = 4, 192, 640, 4
RATES = {"loopback": None, "1gbit": "1gbit", "100mbit": "100mbit"}
GROUPS: dict[str, dict[str, dict[str, object]]] = {
    "plain": {
        "sync-sgd": {}, "sync-sgd, ring": {"exchange": "ring"}, "firecaffe": {}, "local-sgd, tau 4": {"tau": TAU},
        "diloco, tau 4": {"tau": TAU}, "gossip-pull": {}, "layerwise": {"stages": WORKERS},
    },
    "compressed": {"half": {}, "terngrad": {}, "one-bit": {}, "powersgd": {}, "top-k": {}, "dgc": {}},
    "served": {"asgd": {}, "hardsync": {}, "softsync": {}, "easgd, tau 4": {"tau": TAU}},
}  # fmt: skip
CASES = [f"{rate}-{group}" for rate in RATES for group in GROUPS]
ROUNDS, FEW_ROUNDS, ROUND_S = 7, 3, 0.35  # few where a step takes longer than a round should
LEAST_ROUNDS, LONG_S = 2, 6.0  # where a round takes longer than that, it is a mean in itself
LEAD, LEAST = 3, 8  # exchanges with a server before the clock runs, and at least so many while it does
GOSSIPS = 12  # steps at least: who meets whom is drawn anew in each


def network() -> nn.Sequential:
    """784-640-640-640-10: 1.3 M parameters, one layer a stage."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Sequential(nn.Linear(784, WIDTH), nn.ReLU()),
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()),
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()),
        nn.Linear(WIDTH, 10),
    )


def batch(times: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers that look like a batch."""
    generator = torch.Generator().manual_seed(1)
    samples = times * BATCH
    return torch.randn(samples, 784, generator=generator), torch.randint(10, (samples,), generator=generator)


def recipes(group: str) -> dict[str, AnyRecipe]:
    """The recipes of a group."""
    return {name: by_name(name.split(",")[0], **arguments) for name, arguments in GROUPS[group].items()}


def contest(rate: str | None, group: str) -> dict[str, Any]:
    """Rank by rank: profile, then every recipe measured and predicted."""
    keep_memory()  # as every worker of a server does
    dist.init_process_group("gloo")
    chosen = recipes(group)
    link = PERFECT if rate is None else parse_link(rate)
    profile = together_profiled(any(map(served, chosen.values())), link)
    cluster = flat(link, cores=os.cpu_count(), sharing=WORKERS)
    rows = [{"recipe": name, **row(name, recipe, profile, cluster)} for name, recipe in chosen.items()]
    dist.destroy_process_group()
    return {"rows": rows, "profile": asdict(profile)}


def together_profiled(asking: bool, link: Link) -> Profile:
    """The profile of one worker alone, and what they cost each other when all work at once."""
    model, (x, y) = network(), batch()
    profile = alone(partial(profile_model, model, (x, y), F.cross_entropy, sgd(model), name="mlp", repeats=11))
    mean = compute_together(model, (x, y), times=5) / profile.compute_s
    pair = compute_together(model, (x, y), times=3, who=2) / profile.compute_s
    sync_s = keeping_step(model, (x, y))
    tiny = nn.Linear(1, 1)
    with tw.join(by_name("sync-sgd"), tiny, sgd(tiny)) as wire:
        transport = wire._worker.transport
        costs = messages(transport, link, profile, model, batch())
        pace = lambda: compute_together(model, (x, y), times=1) / profile.compute_s / mean  # noqa: E731
        costs = questions(costs, transport, link, profile, pace) if asking else costs
    slowdown = {1: 1.0, 2: min(pair, mean), WORKERS: mean}
    quiet = measure("alone", by_name("one-shot-average"))  # everything that a step does but an exchange
    rest = statistics.median(core_s * profile.compute_s / pace_s for pace_s, _, core_s in quiet["rounds"])
    rest_s = max(0.0, rest - profile.compute_s - profile.update_s)
    return profile.but(slowdown=slowdown, overheads=replace(costs, step_s=rest_s, sync_s=sync_s))


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer of every contestant."""
    return torch.optim.SGD(model.parameters(), lr=0.001)


def alone(work: Callable[[], Profile]) -> Profile:
    """Rank 0's result, made while the others wait; they have one of the same form."""
    found: Profile | None = None
    for turn in range(2):
        if (dist.get_rank() == 0) == (turn == 0):
            found = work()
        dist.barrier()
    assert found is not None
    return found


def at_pace(profile: Profile, compute_s: float) -> Profile:
    """The profile as fast as the machine is now."""
    factor = compute_s / (profile.compute_s * profile.slowed(WORKERS))
    costs = replace(profile.overheads, sync_s=factor * profile.overheads.sync_s)
    return profile.but(slowdown={k: v * factor for k, v in profile.slowdown.items()}, overheads=costs)


def measure(name: str, recipe: AnyRecipe, timed: Callable[[], Any] = dict) -> dict[str, Any]:
    """Steps of all workers with one recipe, in rounds: how fast the machine was around it, seconds of a step, and what
    all cores together were busy for it. ``timed`` is done after each round: memory too is not always equally fast.
    """
    model, probe = network(), network()
    split = getattr(getattr(recipe, "split", None), "stages", 1) > 1
    x, y = batch(WORKERS if split else 1)
    with tw.join(recipe, model, sgd(model)) as wire:
        period, gossips = TAU if "tau" in name else 1, "gossip" in name
        lead = 2 * WORKERS if split else LEAD * period if served(recipe) or gossips else 0  # the barrier is forgotten
        least = 2 * WORKERS if split else GOSSIPS if gossips else LEAST if lead else 1

        def steps(count: int) -> tuple[float, float]:
            dist.barrier()
            start = core = 0.0
            for number in range(lead + count):
                if number == lead:
                    start, core = time.perf_counter(), time.process_time()
                wire.batch(x, y, F.cross_entropy)
                wire.step()
            took, worked = time.perf_counter() - start, time.process_time() - core
            return common(took) / count, in_the_long_run(worked / count, WORKERS)

        steps(1 + period + 2 * WORKERS * split)
        once, _ = steps(period)
        count = period * max(least, round(ROUND_S / once / period))
        took_s = count * once
        several = ROUNDS if took_s < 2 * ROUND_S else FEW_ROUNDS if took_s < LONG_S else LEAST_ROUNDS
        settled(once)
        before = wire.ledger.tx_bytes
        rounds, also, pace_s = [], [], compute_together(probe, batch(), times=1)
        for _ in range(several):
            before_s, (step_s, core_s) = pace_s, steps(count)
            also.append(timed())
            pace_s = compute_together(probe, batch(), times=1)
            rounds.append(((before_s + pace_s) / 2, step_s, core_s))
        settled(once)
        sent = common((wire.ledger.tx_bytes - before) / (several * (lead + count)))
        wire.drain()
    return {"rounds": rounds, "timed": also, "tx_nbytes": sent, "steps": several * count}


def served(recipe: AnyRecipe) -> bool:
    """Whether workers ask a server."""
    return any(leaf.recipe.exchange.pattern == "server" for leaf in leaves(recipe))


def settled(step_s: float) -> None:
    """All have taken their steps, and what was sent ahead of the next has come."""
    dist.barrier()
    time.sleep(2 * step_s)
    dist.barrier()


def row(name: str, recipe: AnyRecipe, profile: Profile, cluster: Cluster) -> dict[str, Any]:
    """One recipe: measured, predicted for the pace of each round, and how far they are usually apart."""
    measured = measure(name, recipe, partial(codings, network(), batch(), [recipe], profile))
    paces = [pace_s for pace_s, _, _ in measured["rounds"]]
    seen = [coded(profile, *then) for then in zip(measured["timed"], paces, strict=True)]
    said = [predict(recipe, at_pace(*then), cluster, WORKERS) for then in zip(seen, paces, strict=True)]
    steps = [step_s for _, step_s, _ in measured["rounds"]]
    error = statistics.median(one.step_s / step_s - 1 for one, step_s in zip(said, steps, strict=True))
    usual = sorted(said, key=lambda one: one.step_s)[len(said) // 2]
    tx = measured["tx_nbytes"]
    return {
        "measured_s": statistics.median(steps), "predicted_s": (1 + error) * statistics.median(steps), "error": error,
        "steps": measured["steps"], "rounds": measured["rounds"], "measured_tx": tx, "predicted_tx": usual.tx_nbytes,
        "tx_error": usual.tx_nbytes / tx - 1 if tx else 0.0, "bottleneck": usual.bottleneck,
        "parts": asdict(usual.parts),
        "codings": {key: asdict(medians([one.codings[key] for one in seen])) for key in seen[0].codings},
        "pace_s": statistics.median(paces),
        "cores_busy": statistics.median(core_s / step_s for _, step_s, core_s in measured["rounds"]),
    }  # fmt: skip


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures that are promised: 15% each, 7% in the median, 1% of the bytes."""
    errors = [abs(r["error"]) for r in rows]
    return {
        "cases": len(rows), "median_error": statistics.median(errors), "largest_error": max(errors),
        "within_15_percent": sum(e <= 0.15 for e in errors), "largest_tx_error": max(abs(r["tx_error"]) for r in rows),
    }  # fmt: skip


def main() -> None:
    """Measure what is missing, then put all cases together."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help=f"measure these again, and nothing else: {', '.join(CASES)}")
    parser.add_argument("--anew", action="store_true", help="measure all cases again")
    asked = parser.parse_args()
    named = [case for case in asked.only.split(",") if case]
    if unknown := set(named) - set(CASES):
        parser.error(f"no case is called {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    done: dict[str, Any] = {}
    for case in CASES:
        rate, group = RATES[case.split("-")[0]], case.split("-")[1]
        path = RESULTS / f"predict_{case}.json"
        if case in named or (not named and (asked.anew or not path.exists())):
            found = in_processes(WORKERS, contest, rate, group, lab=rate)
            write(
                "predict",
                {"case": case, "workers": WORKERS, "batch": BATCH, **summary(found["rows"]), **found},
                f"_{case}",
            )
        if path.exists():
            done[case] = json.loads(path.read_text(encoding="utf-8"))
    rows = [{"case": case, **r} for case, record in done.items() for r in record["rows"]]
    if rows:
        write("predict", {**summary(rows), "by_case": {case: summary(r["rows"]) for case, r in done.items()}})
        draw(rows)


if __name__ == "__main__":
    main()
