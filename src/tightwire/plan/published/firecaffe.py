"""FireCaffe: synchronous SGD over a binomial tree on 128 GPUs of a Cray."""

from __future__ import annotations

from tightwire.plan.cluster import Link, flat
from tightwire.plan.cost import predict
from tightwire.plan.published.paper import Claim, Paper, cut, solve, span, stated_profile
from tightwire.recipes.catalogue import by_name

GPUS, DAYS, EPOCHS, IMAGES = 128, 21, 72, 1_281_167
PARAMETERS = 7_000_000
BATCHES, BANDWIDTHS = (8, 32), (1e9, 5e9)


def paper() -> Paper:
    """GoogLeNet, 47 times faster."""
    tree = by_name("firecaffe")
    rate = EPOCHS * IMAGES / (DAYS * 86_400)  # images a second of one GPU

    def speedup(batch: int, bytes_per_s: float) -> float:
        profile = stated_profile(cut(PARAMETERS), tree, seconds=batch / rate, batch=batch, model="GoogLeNet")
        return predict(tree, profile, flat(Link(0.0, bytes_per_s)), GPUS).speedup

    low, high = span([speedup(batch, speed) for batch in BATCHES for speed in BANDWIDTHS])
    needed = solve(lambda speed: speedup(BATCHES[0], speed), 47.0, 1e7, 1e11)
    needs = "" if needed is None else f"{needed / 1e9:.2g} GB/s at a batch of {BATCHES[0]}"
    return Paper(
        "FireCaffe",
        "Iandola, Moskewicz, Ashraf, Keutzer: FireCaffe. CVPR 2016, arXiv 1511.00175",
        "128 K20 on Cray Gemini, reduction tree; GoogLeNet (7.0 M parameters) takes one K20 21 days (as You, Buluç, "
        "Demmel, SC'17, quote it) for 72 epochs",
        (
            Claim(
                "GoogLeNet, 128 GPUs", 47.0, low, high, evidence="abstract", needs=needs,
                open="batch of a GPU: 8 to 32; bandwidth that a tree gets out of Gemini: 1 to 5 GB/s",
            ),
        ),
        remark="The paper's second result, 39× for Network-in-Network, lacks the time of one GPU as well.",
    )  # fmt: skip
