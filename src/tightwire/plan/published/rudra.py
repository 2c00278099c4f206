"""Rudra: the age of gradients under n-softsync, by simulation of the recipe's own schedule."""

from __future__ import annotations

from dataclasses import replace

from tightwire.plan.cluster import Link, flat
from tightwire.plan.delays import Lognormal
from tightwire.plan.published.paper import Claim, Paper, cut, stated_profile
from tightwire.plan.simulate import simulate
from tightwire.recipes.catalogue import by_name

LEARNERS, PARAMETERS, JITTER, STEPS = 30, 90_000, 0.1, 40
NS = (1, 2, 15, 30)


def paper() -> Paper:
    """Mean staleness close to n, hardly ever more than 2n."""
    claims = []
    worst = 0.0
    for n in NS:
        method = by_name("softsync", n=n)
        profile = stated_profile(cut(PARAMETERS, pieces=1), method, seconds=1.0)
        cluster = replace(flat(Link(0.0, 1e12)), servers="apart")
        trace = simulate(method, profile, cluster, LEARNERS, steps=STEPS, delays=Lognormal(JITTER))
        mean = trace.mean_staleness
        count = sum(trace.staleness.values())
        worst = max(worst, sum(many for age, many in trace.staleness.items() if age > 2 * n) / count)
        claims.append(Claim(f"{n}-softsync: mean age, {LEARNERS} learners", n, mean, mean, unit=" updates"))
    return Paper(
        "Rudra",
        "Gupta, Zhang, Wang: Model Accuracy and Runtime Tradeoff in Distributed Deep Learning. ICDM 2016; Zhang, "
        "Gupta, Lian, Liu: Staleness-aware Async-SGD. IJCAI 2016, arXiv 1511.05950",
        "30 learners, an update after ⌊30/n⌋ gradients; the age is about n, and P(age > 2n) < 0.0001",
        tuple(claims),
        remark=f"Learners' times are not printed: lognormal with σ = {JITTER} here, {STEPS} steps each. Of the "
        f"simulated ages {worst:.2%} exceed 2n.",
    )
