"""Threshold quantisation: send ±τ for every weight whose accumulated gradient has crossed τ.

    r ← r + g;   r_i > τ: send (i, +), r_i ← r_i − τ;   r_i < −τ: send (i, −), r_i ← r_i + τ;   receivers add ±τ

Strom: Scalable Distributed DNN Training Using Commodity GPU Cloud Computing. Interspeech 2015.
g is the worker's gradient times 1/P, so τ is in units of its share of the mean gradient.
"""

from __future__ import annotations

from tightwire.algebra.knob import Knob
from tightwire.algebra.recipe import Recipe
from tightwire.codecs.threshold import Gaps, threshold
from tightwire.exchanges.gather import gather
from tightwire.memories.residual import residual
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd


def strom(tau: Knob = 0.01, *, most: float = 0.05, gaps: Gaps = "words") -> Recipe:
    """±``tau`` where it was crossed, at most ``most`` of each tensor a step."""
    return recipe("strom", memory=residual(), codec=threshold(tau, most=most, gaps=gaps), exchange=gather())


entry = RecipeEntry(
    name="strom",
    make=strom,
    paper=Paper(
        "Strom",
        "Scalable Distributed DNN Training Using Commodity GPU Cloud Computing",
        "Interspeech 2015",
    ),
    when="the wire is hundreds of times too slow, bytes should follow the gradients, and there is time to choose tau",
    start=Start(lr=0.5, momentum=0.0),  # momentum would repeat what arrives late
    laws=(
        Equals(
            "a threshold that nobody crosses moves nothing",
            Case(strom(1e9), 3, momentum=0.9),
            Case(sync_sgd(), 3, rate=0.0),
        ),
        Equals(
            "Rice-coded gaps carry the same as words",
            Case(strom(0.01, gaps="rice"), 3, momentum=0.9),
            Case(strom(0.01), 3, momentum=0.9),
        ),
    ),
)
