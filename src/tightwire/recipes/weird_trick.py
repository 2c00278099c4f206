"""One weird trick: convolutions by data, fully connected layers by units, on the same workers.

    every worker: b examples through all convolutions, everybody's examples through 1/K of the units of each Linear
    w(t+1) = w(t) − ν·∇f(w(t); K·b examples)

How examples reach the other workers' units is its ``scheme``: a, b or c (`splits.trick`). Krizhevsky: One Weird Trick
for Parallelizing Convolutional Neural Networks. arXiv 1404.5997.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import split_model
from tightwire.splits.trick import Scheme, Update, WeirdTrick


def weird_trick(
    workers: int = 2, *, scheme: Scheme = "c", first: int | None = None, update: Update = "together"
) -> Recipe:
    """Each worker has the convolutions, and some units of every layer from the first nn.Linear on."""
    return split_model("weird-trick", WeirdTrick(workers, scheme, first, update))


entry = RecipeEntry(
    name="weird-trick",
    make=weird_trick,
    paper=Paper(
        "Krizhevsky",
        "One Weird Trick for Parallelizing Convolutional Neural Networks",
        "arXiv 1404.5997",
    ),
    when="convolutions followed by fully connected layers that hold most of the weights",
    laws=(
        Equals("two workers are plain SGD", Case(weird_trick(2), 2, momentum=0.9), Case(momentum=0.9), 1e-5),
        Equals("so they are with scheme a", Case(weird_trick(2, scheme="a"), 2), Case(), 1e-5),
        Equals("and with scheme b", Case(weird_trick(3, scheme="b"), 3), Case(), 1e-5),
    ),
    workers=2,
)
