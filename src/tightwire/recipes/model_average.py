"""Model averaging for speech: average every few minibatches, and start each stretch with a fresh optimizer.

    each worker: tau steps;   w = (1/P)·Σ_k w_k;   momentum starts anew (our choice: the paper does not say)

Su, Chen: Experiments on Parallel Training of Deep Neural Network using Model Averaging. arXiv 1507.01239, 2015, after
Povey, Zhang, Khudanpur (arXiv 1410.7455), whose natural-gradient SGD is the local optimizer there; here it is yours.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.exchanges.allreduce import AllReduce, allreduce
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.local_sgd import local_sgd
from tightwire.recipes.make import recipe
from tightwire.rules.adopt import overwrite
from tightwire.rules.average import average
from tightwire.rules.signals import weights
from tightwire.rules.yours import yours
from tightwire.schedules.clock import every


def model_average(tau: int = 10, *, exchange: AllReduce = allreduce()) -> Recipe:  # noqa: B008
    """Average every ``tau`` steps; optimizer state does not outlive an average."""
    return recipe(
        "model-average", local=yours(), send=weights(), exchange=exchange, schedule=every(tau), center=average(),
        adopt=overwrite(momentum="reset"),
    )  # fmt: skip


entry = RecipeEntry(
    name="model-average",
    make=model_average,
    paper=Paper(
        "Su, Chen",
        "Experiments on Parallel Training of Deep Neural Network using Model Averaging",
        "arXiv 1507.01239, 2015",
    ),
    start=Start(lr=0.1),
    when="as local-sgd, where momentum of before an average points the wrong way after it",
    laws=(
        Equals(
            "without momentum it is local SGD",
            Case(model_average(4), 3),
            Case(local_sgd(4), 3),
        ),
        Equals("one worker without momentum is plain SGD", Case(model_average(4), 1), Case()),
    ),
)
