"""SparkNet: average every 50 steps, over a network on which an average takes 20 seconds."""

from __future__ import annotations

from tightwire.plan.cluster import Link, flat
from tightwire.plan.cost import predict
from tightwire.plan.published.dgc import shapes_of
from tightwire.plan.published.paper import Claim, Paper, span, stated_profile
from tightwire.recipes.catalogue import by_name

TAU, SYNC_S = 50, 20.0
STEP_S = (0.5, 4.0)
HOURS_ALONE, HOURS = 55.6, {3: 22.9, 5: 14.5, 10: 12.8}


def paper() -> Paper:
    """AlexNet to 45% on 3, 5 and 10 nodes."""
    claims = {
        nodes: Claim(
            f"AlexNet to 45%, {nodes} nodes", HOURS_ALONE / hours,
            *span([_speedup("local-sgd", nodes, seconds) for seconds in STEP_S]),
            evidence="from memory", open="time of a step: 0.5 to 4 s; as many samples as one node needs",
        )
        for nodes, hours in HOURS.items()
    }  # fmt: skip
    naive = [_speedup("sync-sgd", 10, s) for s in STEP_S]
    return Paper(
        "SparkNet",
        "Moritz, Nishihara, Stoica, Jordan: SparkNet. ICLR 2016, arXiv 1511.06051",
        "τ = 50 steps between averages, S ≈ 20 s for one; speed-up = N·C ÷ R·(τC + S) with C the time of a step",
        tuple(claims.values()),
        remark="The model gives steps, the paper time to an accuracy: what the printed ratio falls short by is what "
        f"drifting apart costs. An average at every step would give {min(naive):.2f} to {max(naive):.2f}× on 10 nodes.",
        curves={"time to 45%": claims},
    )


def _speedup(name: str, nodes: int, seconds: float) -> float:
    method = by_name(name, **({"tau": TAU} if name == "local-sgd" else {}))
    profile = stated_profile(shapes_of("alexnet"), method, seconds=seconds)
    bandwidth = 2 * (nodes - 1) / nodes * profile.nbytes / SYNC_S  # an average takes S on any number of nodes
    return predict(method, profile, flat(Link(0.0, bandwidth)), nodes).speedup
