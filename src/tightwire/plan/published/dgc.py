"""Deep Gradient Compression: payload ratios from layer shapes, and its speed-ups on 64 nodes."""

from __future__ import annotations

from functools import cache

import torch

from tightwire import models
from tightwire.plan.cluster import Link, flat
from tightwire.plan.cost import predict
from tightwire.plan.published.paper import Claim, Paper, solve, span, stated_profile
from tightwire.recipes.catalogue import by_name

GBIT = 1e9 / 8
NODES = 64
STEP_S = (0.2, 1.0)  # of a node with 4 Titan XP on AlexNet: not printed


def paper() -> Paper:
    """Ratios of Table 3 to 5, and Figure 6 as far as the text tells it."""
    claims = [_ratio(name, printed) for name, printed in (("resnet50", 277), ("alexnet", 597), ("lstm-lm", 462))]
    claims += [
        _speedup("AlexNet, 64 nodes, 10 Gbit/s, dense", "sync-sgd", 10 * GBIT, 30),
        _speedup("AlexNet, 64 nodes, 1 Gbit/s, DGC", "dgc", GBIT, 40),
    ]
    return Paper(
        "Deep Gradient Compression",
        "Lin, Han, Mao, Wang, Dally: Deep Gradient Compression. ICLR 2018, arXiv 1712.01887; Han, Dally: "
        "Bandwidth-Efficient Deep Learning. DAC 2018",
        "layer shapes; density 0.1%, 32-bit values with 16-bit gaps, vectors dense; 64 nodes of 4 Titan XP",
        tuple(claims),
        remark="The step of a node is not printed. One step time must explain both speed-ups: see what each needs. "
        "An all-gather brings every worker the payloads of all others, so ratios are not speed-ups.",
    )


@cache
def shapes_of(model: str) -> dict[str, tuple[int, ...]]:
    """The tensors of a network of the catalogue, without their memory."""
    entry = models.describe(model)
    with torch.device("meta"):
        made = models.make(model, inputs=entry.inputs, classes=entry.classes)
    return {name: tuple(tensor.shape) for name, tensor in made.named_parameters()}


def _ratio(model: str, printed: float) -> Claim:
    dgc = by_name("dgc")
    profile = stated_profile(shapes_of(model), dgc, seconds=1.0, model=model)
    sent = predict(dgc, profile, flat(Link(0.0, GBIT)), 2).tx_nbytes  # to the one other worker
    ratio = profile.nbytes / sent
    return Claim(f"{model}: payload ratio", printed, ratio, ratio)


def _speedup(what: str, recipe: str, bytes_per_s: float, printed: float) -> Claim:
    method = by_name(recipe, exchange="halving-doubling") if recipe == "sync-sgd" else by_name(recipe)
    shapes = shapes_of("alexnet")
    cluster = flat(Link(0.0, bytes_per_s))

    def speedup(seconds: float) -> float:
        return predict(method, stated_profile(shapes, method, seconds=seconds), cluster, NODES).speedup

    low, high = span([speedup(seconds) for seconds in STEP_S])
    needed = solve(speedup, printed, 0.01, 10.0)
    needs = f"{needed:.2f} s a step" if needed else "no step time gives it"
    return Claim(what, printed, low, high, open=f"step of a node: {STEP_S[0]} to {STEP_S[1]} s", needs=needs)
