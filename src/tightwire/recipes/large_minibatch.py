"""Accurate, large minibatch SGD: the rate grows with the number of workers, gradually.

    η̂ = P·η;   warm-up: η(t) = η·(1 + (P−1)·t/T) for T = 5 epochs;   then your own schedule, P times as high

Goyal, Dollár, Girshick, Noordhuis, Wesolowski, Kyrola, Tulloch, Jia, He. arXiv 1706.02677, 2017.
Your optimizer keeps the rate of one worker. Momentum correction, v ← m·(η'/η)·v, is needed where the rate is folded
into the velocity; PyTorch's SGD keeps u ← m·u + g and multiplies by the rate afterwards, which is the corrected form.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.allreduce import AllReduce, allreduce
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import recipe
from tightwire.rules.yours import yours
from tightwire.schedules.ramps import linear_scaling


def large_minibatch(warmup_epochs: float = 5.0, *, exchange: AllReduce = allreduce()) -> Recipe:  # noqa: B008
    """Synchronous SGD with linear scaling and gradual warm-up; give your optimizer the rate of one worker."""
    return recipe("large-minibatch", exchange=exchange, center=yours(linear_scaling(warmup_epochs)))


entry = RecipeEntry(
    name="large-minibatch",
    make=large_minibatch,
    paper=Paper(
        "Goyal, Dollár, Girshick, Noordhuis, Wesolowski, Kyrola, Tulloch, Jia, He",
        "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour",
        "arXiv 1706.02677, 2017",
    ),
    when="more workers should mean fewer steps at the same accuracy",
    laws=(
        Equals("one worker is plain SGD", Case(large_minibatch(), 1, momentum=0.9), Case(momentum=0.9)),
        Equals(
            "without warm-up it is plain SGD with the rate and the batch of all workers",
            Case(large_minibatch(0.0), 3, momentum=0.5),
            Case(momentum=0.5, rate=3.0),
            within=1e-5,
        ),
    ),
)
