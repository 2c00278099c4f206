"""PowerAI DDL: a ring of rings over 64 servers of 4 GPUs."""

from __future__ import annotations

from tightwire.plan.cluster import Cluster, Link, Tier
from tightwire.plan.cost import predict
from tightwire.plan.published.dgc import shapes_of
from tightwire.plan.published.paper import Claim, Paper, span, stated_profile
from tightwire.recipes.catalogue import by_name

GPUS, EPOCHS, IMAGES, MINUTES = 256, 90, 1_281_167, 50
BATCHES, BETWEEN, INSIDE = (32, 64), (50e9 / 8, 200e9 / 8), 20e9


def paper() -> Paper:
    """95% of perfect scaling on 256 GPUs."""
    found = [_efficiency(batch, speed) for batch in BATCHES for speed in BETWEEN]
    return Paper(
        "PowerAI DDL",
        "Cho, Finkler, Kumar, Kung, Saxena, Sreedhar: PowerAI DDL. arXiv 1708.02188, 2017",
        "64 servers of 4 P100; 90 epochs of ResNet-50 in 50 minutes on 256 GPUs, from which the step follows",
        (
            Claim(
                "efficiency, 256 GPUs", 95.0, *span(found), unit="%", evidence="second-hand",
                open="batch of a GPU: 32 to 64; network of a server: 50 to 200 Gbit/s; 20 GB/s inside it",
            ),
        ),
        remark="The efficiency is the one that IBM gave the press (top500.org, August 2017); it was measured with "
        "Caffe, the 50 minutes with Torch.",
    )  # fmt: skip


def _efficiency(batch: int, between: float) -> float:
    method = by_name("ddl", dims="4x64")
    step_s = MINUTES * 60 / (EPOCHS * IMAGES / (GPUS * batch))
    cluster = Cluster((Tier("server", 4, Link(5e-6, INSIDE)), Tier("servers", 0, Link(5e-6, between))))
    profile = stated_profile(shapes_of("resnet50"), method, seconds=0.95 * step_s, batch=batch)
    return 100 * predict(method, profile, cluster, GPUS).efficiency
