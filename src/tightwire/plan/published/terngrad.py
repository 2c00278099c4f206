"""TernGrad: two bits a gradient, on two clusters of 128 nodes."""

from __future__ import annotations

from tightwire.plan.cluster import Link, flat
from tightwire.plan.cost import predict
from tightwire.plan.published.dgc import shapes_of
from tightwire.plan.published.paper import Claim, Paper, solve, span, stated_profile
from tightwire.recipes.catalogue import by_name

STEP_S = (0.1, 1.0)
CHANNELS = (64, 128, 256, 256, 512, 512, 512, 512)
DENSE = ((4096, 25088), (4096, 4096), (1000, 4096))


def vgg_a() -> dict[str, tuple[int, ...]]:
    """Configuration A of Simonyan and Zisserman: 8 convolutions of 3×3, 3 fully connected layers."""
    inputs = (3, *CHANNELS)
    shapes: dict[str, tuple[int, ...]] = {}
    for at, (inn, out) in enumerate(zip(inputs, CHANNELS, strict=False)):
        shapes |= {f"conv{at}.weight": (out, inn, 3, 3), f"conv{at}.bias": (out,)}
    for at, shape in enumerate(DENSE):
        shapes |= {f"fc{at}.weight": shape, f"fc{at}.bias": shape[:1]}
    return shapes


def paper() -> Paper:
    """Speed of TernGrad over float32 on the same machines."""
    ethernet = _claim("AlexNet, 8 GPUs (2 nodes), 1 Gbit/s: over float32", shapes_of("alexnet"), 1e9 / 8, 2, 3.04)
    infiniband = _claim("VGG-A, 128 nodes, 100 Gbit/s: over float32", vgg_a(), 100e9 / 8, 128, 2.0)
    return Paper(
        "TernGrad",
        "Wen, Xu, Yan, Wu, Wang, Chen, Li: TernGrad. NIPS 2017, arXiv 1705.07878",
        "nodes of 4 GPUs; GTX 1080 on 1 Gbit/s or P100 on 100 Gbit/s; batches of 128 (AlexNet) and 32 (VGG-A) a GPU",
        (ethernet, infiniband),
        remark="The time of a node is not printed. Their server adds codes, so an answer has log₂(2P+1) bits; our "
        "`terngrad` gathers codes, which on 128 nodes costs more than it saves, so it travels densely there and gains "
        "nothing.",
    )


def _claim(what: str, shapes: dict[str, tuple[int, ...]], bytes_per_s: float, nodes: int, printed: float) -> Claim:
    dense, ternary = by_name("sync-sgd"), by_name("terngrad")

    def gain(seconds: float) -> float:
        profile = stated_profile(shapes, dense, ternary, seconds=seconds)
        steps = [predict(one, profile, flat(Link(0.0, bytes_per_s)), nodes).step_s for one in (dense, ternary)]
        return steps[0] / steps[1]

    needed = solve(gain, printed, 0.01, 20.0)
    needs = f"{needed:.2g} s a step" if needed else "no step time gives it"
    open_ = f"step of a node: {STEP_S[0]} to {STEP_S[1]} s"
    return Claim(what, printed, *span([gain(s) for s in STEP_S]), evidence="second-hand", open=open_, needs=needs)
