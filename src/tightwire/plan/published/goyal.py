"""Goyal et al.: ResNet-50 in one hour on 32 servers of 8 GPUs."""

from __future__ import annotations

from tightwire.plan.cluster import Link, flat
from tightwire.plan.cost import predict
from tightwire.plan.published.dgc import shapes_of
from tightwire.plan.published.paper import Claim, Paper, cut, solve, span, stated_profile
from tightwire.recipes.catalogue import by_name

SERVERS, BACKWARD_S = 32, 0.120
FORWARD = 1 / 3
BUCKETS_MIB = (1, 25)
LATENCIES_S = (10e-6, 100e-6)
BANDWIDTHS = (20e9 / 8, 50e9 / 8)
NEARLY = 0.95  # of perfect scaling: the exchange is hidden


def paper() -> Paper:
    """The bandwidth it needs, its efficiency, and halving-doubling against a ring."""
    wanted = [_needed(grain) for grain in BUCKETS_MIB]
    ratios = [_ratio(latency, speed) for latency in LATENCIES_S for speed in BANDWIDTHS]
    scaled = [_efficiency(speed, grain) for speed in BANDWIDTHS for grain in BUCKETS_MIB]
    return Paper(
        "Training ImageNet in 1 hour",
        "Goyal, Dollár, Girshick, Noordhuis, Wesolowski, Kyrola, Tulloch, Jia, He: Accurate, Large Minibatch SGD. "
        "arXiv 1706.02677, 2017",
        "100 MB of gradients (ResNet-50), 120 ms of back-propagation, 32 servers, each summing its 8 GPUs first",
        (
            Claim(
                "bandwidth that hides the exchange", 15.0, *span(wanted), unit=" Gbit/s",
                open="size of the pieces: 1 to 25 MiB; hidden means 95% of perfect scaling",
            ),
            Claim(
                "efficiency, 1 to 32 servers", 90.0, *span(scaled), unit="%", evidence="abstract",
                open="bandwidth that a server gets: 20 to 50 Gbit/s; pieces of 1 to 25 MiB",
            ),
            Claim(
                "halving-doubling over ring, time", 3.0, *span(ratios),
                open="latency: 10 to 100 µs; bandwidth: 20 to 50 Gbit/s; a buffer of 1 MiB",
            ),
        ),
        remark="Their own arithmetic counts the bytes of an all-reduce over the backward pass, 2·100 MB in 120 ms, and "
        "rounds up.",
    )  # fmt: skip


def _efficiency(bytes_per_s: float, grain: int) -> float:
    method = by_name("sync-sgd", exchange="halving-doubling", grain=grain)
    profile = stated_profile(shapes_of("resnet50"), method, seconds=BACKWARD_S / (1 - FORWARD), forward=FORWARD)
    return 100 * predict(method, profile, flat(Link(20e-6, bytes_per_s)), SERVERS).efficiency


def _needed(grain: int) -> float:
    found = solve(lambda speed: _efficiency(speed, grain), 100 * NEARLY, 1e7, 1e11)
    assert found is not None
    return 8 * found / 1e9


def _ratio(latency_s: float, bytes_per_s: float) -> float:
    """Time of one buffer over a ring ÷ over halving-doubling."""
    times = []
    for graph in ("ring", "halving-doubling"):
        method = by_name("sync-sgd", exchange=graph)
        profile = stated_profile(cut(2**18, pieces=1), method, seconds=0.0)
        times.append(predict(method, profile, flat(Link(latency_s, bytes_per_s)), SERVERS).step_s)
    return times[0] / times[1]
