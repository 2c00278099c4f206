"""A plan in words: what to use, why, from which bandwidth on something else, and the command that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tightwire.plan.breakeven import Sweep, line_rate, say
from tightwire.plan.cluster import Cluster
from tightwire.plan.kinds import WORDS, keeps
from tightwire.plan.profile import Profile
from tightwire.plan.search import ERROR, Aim, Ranking, Row

_LIMITS = {
    "compute": "computing",
    "encode": "encoding",
    "exchange": "the wire",
    "decode": "decoding",
    "server port": "the server's port",
    "cores": "the cores that workers share",
    "stage": "its slowest stage",
    "update": "the update",
}
ALL_REDUCE = "plain all-reduce"


@dataclass(frozen=True)
class Plan:
    """Everything a plan found: rankings by number of workers, and how the last one changes with bandwidth."""

    profile: Profile
    cluster: Cluster
    rankings: tuple[Ranking, ...]
    sweep: Sweep

    @property
    def aim(self) -> Aim:
        """What was to be small."""
        return self.rankings[-1].aim

    @property
    def chosen(self) -> Ranking:
        """The ranking that is spoken about: of the most workers, or of the cheapest number of them."""
        if self.aim.objective == "cost":
            return min(self.rankings, key=lambda ranking: ranking.advised.value)
        return max(self.rankings, key=lambda ranking: ranking.workers)


def advice(plan: Plan) -> list[str]:
    """Sentences, the most important first."""
    ranking = plan.chosen
    use, first = ranking.advised, ranking.first
    if ranking.workers == 1:
        return [f"One worker has nobody to exchange with: {show_time(use.prediction.step_s)} a step, by any recipe."]
    lines = [f"On {_workers(ranking.workers)} use {_named(use)}: {_gain(use)}. What limits it: {limit(use)}."]
    if use.candidate.name == "sync-sgd":
        lines.append(f"Nothing that takes the same steps is more than {ERROR:.0%} better.")
    else:
        plain = ranking.row("sync-sgd")
        if plain is not None:
            better = _times(plain.value / use.value)
            lines.append(f"That is {better} times better than {ALL_REDUCE} (limited by {limit(plain)}).")
    if not keeps(first.candidate.kind):
        lines.append(
            f"{first.candidate} is {_times(use.value / first.value)} times better still, but there "
            f"{WORDS[first.candidate.kind]}: measure what accuracy that costs."
        )
    best = max(ranking.rows, key=lambda row: row.prediction.samples_per_s)
    if best.prediction.speedup < 1:
        lines.append("No recipe is faster on these workers than one worker alone: use one.")
    elif use.prediction.speedup < 1:
        lines.append("One worker alone is faster than these are together by any recipe that keeps the steps.")
    return [*lines, f"By bandwidth: {say(plan.sweep.reigns)}."]


def _times(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 99.5 else f"{ratio:,.0f}"


def _named(row: Row) -> str:
    return f"{row.candidate} ({ALL_REDUCE})" if row.candidate.name == "sync-sgd" else str(row.candidate)


def _gain(row: Row) -> str:
    found = row.prediction
    return f"{show_time(found.step_s)} a step, {found.speedup:.2f} times the speed of one worker"


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def limit(row: Row) -> str:
    """What a recipe's step waits for, in words."""
    return _LIMITS.get(row.prediction.bottleneck, row.prediction.bottleneck)


def show_time(seconds: float) -> str:
    """A short time in three digits.

    >>> show_time(0.2124), show_time(1.5), show_time(0.00004)
    ('212 ms', '1.5 s', '40 µs')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= 0.9995 * scale or unit == "µs":
            return f"{seconds / scale:.3g} {unit}"
    raise AssertionError


def as_data(plan: Plan) -> dict[str, Any]:
    """Everything as one JSON object."""
    return {
        "model": plan.profile.model,
        "parameters": plan.profile.nparams,
        "device": plan.profile.device,
        "batch": plan.profile.batch,
        "compute_s": plan.profile.compute_s,
        "cluster": plan.cluster.name,
        "objective": plan.aim.objective,
        "samples": plan.aim.samples,
        "workers": plan.chosen.workers,
        "use": _row(plan.chosen.advised),
        "first": _row(plan.chosen.first),
        "advice": advice(plan),
        "break_even": [
            {"recipe": str(r.candidate), "from_bit_s": line_rate(r.low), "to_bit_s": _finite(line_rate(r.high))}
            for r in plan.sweep.reigns
        ],
        "rankings": [
            {
                "workers": ranking.workers,
                "rows": [_row(row) for row in ranking.rows],
                "refused": [{"recipe": name, "why": why} for name, why in ranking.refused],
            }
            for ranking in plan.rankings
        ],
    }


def _row(row: Row) -> dict[str, Any]:
    found = row.prediction
    return {
        "recipe": str(row.candidate),
        "name": row.candidate.name,
        "params": dict(row.candidate.params),
        "optimisation": row.candidate.kind,
        "value": row.value,
        "step_s": found.step_s,
        "samples_per_s": found.samples_per_s,
        "speedup": found.speedup,
        "bottleneck": found.bottleneck,
        "parts": vars(found.parts),
        "tx_nbytes": found.tx_nbytes,
        "rx_nbytes": found.rx_nbytes,
        "staleness": found.staleness,
    }


def _finite(value: float) -> float | None:
    return None if value == float("inf") else value
