"""Layer-wise model partitioning: Table 1, from its own times and layer sizes.

The paper's equation 6 hides copies behind computing and puts the server's bus at 2P·T_comm; our workers wait for their
copies, and our ports carry both directions at once. A synchronous server needs both directions one after the other
either way. One of the P cards is the server.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from tightwire.plan.cluster import Link, flat
from tightwire.plan.cost import predict
from tightwire.plan.equations import speedup, speedup_synchronous
from tightwire.plan.published.paper import Claim, Paper, span, stated_profile
from tightwire.recipes.catalogue import by_name
from tightwire.splits.balance import Layer as Piece
from tightwire.splits.balance import balance

T_CALC_S, T_COMM_S, BATCH = 149.3e-3, 23.7e-3, 1024
WIDTHS = (462, *(2048,) * 7, 10217)
SHAPES = {f"layer{at}": (out, inn) for at, (inn, out) in enumerate(pairwise(WIDTHS))}


def paper() -> Paper:
    """Table 1: speed-ups of synchronous, asynchronous and layer-wise training on 4 and 8 cards."""
    hard, soft = by_name("hardsync"), by_name("asgd")
    profile = stated_profile(SHAPES, hard, soft, seconds=T_CALC_S, batch=BATCH, model="dnn7")
    link = Link(0.0, profile.nbytes / T_COMM_S)  # T_comm is what one gradient takes
    bus = replace(flat(link, name="PCIe"), servers="apart")
    curves: dict[str, dict[int, Claim]] = {"synchronous": {}, "asynchronous": {}, "layer-wise": {}}
    for cards, printed_sync, printed_async, printed_split in ((4, 1.5, 3.1, 3.3), (8, 2.1, 3.4, 6.8)):
        clients = cards - 1
        early = predict(hard, profile, bus, clients).speedup
        barrier = speedup_synchronous(T_CALC_S, T_COMM_S, clients)
        waiting = predict(soft, profile, bus, clients).speedup
        hidden = speedup(T_CALC_S, T_COMM_S, clients)
        split = predict(by_name("layerwise", stages=cards), profile, bus, cards).speedup
        curves["synchronous"][cards] = Claim(
            f"synchronous, {cards} cards", printed_sync, *span([barrier, early]),
            open="whether a card begins before all others have the weights",
        )  # fmt: skip
        curves["asynchronous"][cards] = Claim(
            f"asynchronous, {cards} cards", printed_async, *span([waiting, hidden]),
            open="whether copies hide behind computing (the paper's equation 6), and both directions share the bus",
        )  # fmt: skip
        curves["layer-wise"][cards] = Claim(f"layer-wise, {cards} cards", printed_split, split, split, bound=True)
    return Paper(
        "Layer-wise partitioning",
        "Parallel Training of Fully-connected Deep Neural Network Using Layer-wise Model Partitioning, Table 1",
        "T_calc 149.3 ms (batch 1024, one K20), T_comm 23.7 ms (180 MB at 7.6 GB/s), layers 462, 7×2048, 10217; one of "
        "the cards is the server",
        tuple(claim for curve in curves.values() for claim in curve.values()),
        remark="The output layer holds 44.5% of the weights. Whole layers on cards therefore reach at most 2.25×, on "
        "however many cards and over whatever bus. With that layer's columns dealt over all cards (`layerwise:wide`) "
        f"the same weights allow {_dealt(4):.1f}× on 4 and {_dealt(8):.1f}× on 8 cards before any copying. With a "
        "barrier the synchronous rows follow from the stated times to within 4%; three clients (4 cards) cannot pass "
        "3×.",
        curves=curves,
    )


def _dealt(cards: int) -> float:
    """What the weights alone allow where the last layer's columns may be dealt over all cards."""
    pieces = [Piece(name, float(out * inn), columns=out) for name, (out, inn) in SHAPES.items()]
    return balance(pieces, cards).speedup
