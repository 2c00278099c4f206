"""Chen et al.: how many of 100 workers to wait for, by simulation of the recipe's own schedule."""

from __future__ import annotations

from tightwire.plan.cluster import Link, flat
from tightwire.plan.delays import Lognormal
from tightwire.plan.published.paper import Claim, Paper, cut, stated_profile
from tightwire.plan.simulate import simulate
from tightwire.recipes.catalogue import by_name

MACHINES, STEPS = 100, 6
SIGMAS = (0.1, 0.5)
SPARES = (0, 2, 4, 8, 16)


def paper() -> Paper:
    """96 and 4 spare ones were the best division of 100."""
    best = [_best(sigma) for sigma in SIGMAS]
    return Paper(
        "Backup workers",
        "Chen, Pan, Monga, Bengio, Jozefowicz: Revisiting Distributed Synchronous SGD. arXiv 1604.00981, 2016",
        "100 machines, b of them spare: a step takes the first 100 − b gradients",
        (
            Claim(
                "spare workers that are best", 4.0, float(min(best)), float(max(best)), unit=" of 100",
                evidence="second-hand", open=f"how steps vary: lognormal, σ from {SIGMAS[0]} to {SIGMAS[1]}",
            ),
        ),
        remark="Best means most gradients applied in a second; how much a larger batch is worth is another matter. A "
        "measured distribution can be given to the simulator in place of the law.",
    )  # fmt: skip


def _best(sigma: float) -> int:
    """The number of spare workers that applies most gradients in a second."""
    return max(SPARES, key=lambda spare: _rate(spare, sigma))


def _rate(spare: int, sigma: float) -> float:
    method = by_name("backup-workers", spare=spare) if spare else by_name("hardsync")
    profile = stated_profile(cut(1000, pieces=1), method, seconds=1.0)
    trace = simulate(method, profile, flat(Link(0.0, 1e12)), MACHINES, steps=STEPS, delays=Lognormal(sigma))
    return sum(trace.staleness.values()) / trace.seconds
