"""Layer-wise partitioning: each worker owns adjacent layers; minibatches stream through; nobody waits.

In tick τ stage s of n runs forward of minibatch τ−s and backward of τ−2(n−1)+s, and updates its own layers at once
(`splits.layerwise`). Activations cross the wire instead of gradients: 4·b·width bytes each way and boundary.

Parallel Training of Fully-connected Deep Neural Network Using Layer-wise Model Partitioning; its schedule is pipelined
back-propagation (Chen, Eversole, Li, Yu, Seide, Interspeech 2012). The backward pass sees weights that have moved on
2(n−1−s) times since the forward pass, which costs accuracy. The columns of a wide last layer may be dealt out over all
workers (`splits.wide`): whole layers alone cannot be balanced where one of them is half of the work.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.algebra.split import Compensation, Cut
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import split_model
from tightwire.splits.layerwise import Layerwise


def layerwise(
    stages: int = 2,
    *,
    cuts: tuple[int, ...] | None = None,
    wide: int = 0,
    columns: tuple[int, ...] | None = None,
    replicas: int = 1,
    compensation: Compensation = "none",
) -> Recipe:
    """One stage of adjacent layers on each worker; ``wide`` workers share the columns of the last layer."""
    return split_model("layerwise", Layerwise(stages, Cut(cuts, wide, columns or (), replicas), compensation))


entry = RecipeEntry(
    name="layerwise",
    make=layerwise,
    paper=Paper(
        "Chen, Eversole, Li, Yu, Seide",
        "Pipelined Back-Propagation for Context-Dependent Deep Neural Networks",
        "Interspeech 2012",
    ),
    when="a deep sequential model with more weights than activations, on few workers",
    laws=(Equals("one stage is plain SGD", Case(layerwise(1), 1, momentum=0.9), Case(momentum=0.9)),),
    workers=2,
)
