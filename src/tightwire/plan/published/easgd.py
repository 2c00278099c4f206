"""You, Buluç, Demmel: elastic averaging in turn, by a tree, on the cards, and behind the computation.

What the first profile says, 87% of the time for communication, fixes the one number that is not printed: the ratio of
computing to moving the weights. The other versions follow from it.
"""

from __future__ import annotations

from dataclasses import replace

from tightwire.plan.cluster import Link, flat
from tightwire.plan.cost import Prediction, predict
from tightwire.plan.published.paper import Claim, Paper, cut, solve, stated_profile
from tightwire.recipes.catalogue import by_name

CARDS, WEIGHT_NBYTES, SHARE = 8, 249e6, 0.87
COMPUTE_S = 0.1  # any: only the ratio counts


def paper() -> Paper:
    """From the share of the first version, the gain of the second, and what the last one needs."""
    bandwidth = _bandwidth()
    turns, tree = _step("round-robin-easgd", bandwidth), _step("sync-easgd", bandwidth)
    gain = tree.samples_per_s / turns.samples_per_s
    naive = CARDS * COMPUTE_S / (1 - SHARE)  # one card after another, as the paper's first version is
    low, high = sorted((gain, naive / tree.step_s))
    faster = solve(lambda factor: _share(_step("sync-easgd", factor * bandwidth)), 0.14, 1.0, 1000.0)
    return Paper(
        "EASGD on clusters",
        "You, Buluç, Demmel: Scaling Deep Learning on GPU and Knights Landing Clusters. SC'17, arXiv 1708.02983",
        "8 cards, AlexNet's 249 MB of weights, 87% of the first version's time for communication",
        (
            Claim(
                "Sync EASGD1 (a tree) over the original (in turn)", 3.7, low, high, evidence="second-hand",
                open="whether a card waits for its turn before it computes",
            ),
            Claim(
                "communication after all changes", 14.0, *_last_share(bandwidth), unit="%", evidence="abstract",
                open="how much faster cards reach each other than the host: 1 to 10 times",
                needs="" if faster is None else f"links {faster:.2g} times as fast as to the host",
            ),
        ),
        remark="Weights on the cards (EASGD2) means faster links, and an exchange behind the computation (EASGD3) is "
        "how `sync-easgd` runs here.",
    )  # fmt: skip


def _step(name: str, bytes_per_s: float) -> Prediction:
    method = by_name(name)
    profile = stated_profile(cut(round(WEIGHT_NBYTES / 4), pieces=8), method, seconds=COMPUTE_S, model="AlexNet")
    return predict(method, profile, replace(flat(Link(0.0, bytes_per_s)), servers="apart"), CARDS)


def _bandwidth() -> float:
    """At which sending the weights to a card and fetching them takes 87% of a turn."""
    return 2 * WEIGHT_NBYTES * (1 - SHARE) / (SHARE * COMPUTE_S)


def _share(found: Prediction) -> float:
    """The part of a step that is not computing."""
    return 1 - found.parts.compute_s / found.step_s


def _last_share(bandwidth: float) -> tuple[float, float]:
    shares = [100 * _share(_step("sync-easgd", factor * bandwidth)) for factor in (1.0, 10.0)]
    return min(shares), max(shares)
