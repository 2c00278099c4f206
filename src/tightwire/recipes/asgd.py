"""Asynchronous SGD: every worker pushes its gradient to a server and goes on with whatever the centre is by then.

    worker: w ← pull;  g = ∇f(w; B);  push g          server, on every push: c ← OptimizerStep(c, g)

Dean et al.: Large Scale Distributed Deep Networks (Downpour with n_push = n_fetch = 1). NIPS 2012.
Lian, Huang, Li, Liu: Asynchronous Parallel Stochastic Gradient for Nonconvex Optimization. NIPS 2015.
Your optimizer lives on the server; its learning rate follows the scheduler of the worker that pushed.
"""

from __future__ import annotations

from tightwire.algebra.codec import Codec
from tightwire.algebra.grain import whole
from tightwire.algebra.memory import Memory
from tightwire.algebra.recipe import Recipe
from tightwire.codecs.dense import dense
from tightwire.exchanges.server import server
from tightwire.memories.nothing import nothing
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd
from tightwire.schedules.clock import asynchronous, every_step


def asgd(*, codec: Codec = dense(), memory: Memory = nothing()) -> Recipe:  # noqa: B008
    """Push a gradient, pull the centre, never wait."""
    return recipe(
        "asgd", memory=memory, codec=codec, exchange=server(), schedule=asynchronous(), grain=whole(),
        buffers="average",
    )  # fmt: skip


entry = RecipeEntry(
    name="asgd",
    make=asgd,
    paper=Paper(
        "Dean, Corrado, Monga, Chen, Devin, Le, Mao, Ranzato, Senior, Tucker, Yang, Ng",
        "Large Scale Distributed Deep Networks",
        "NIPS 2012",
    ),
    when="workers differ in speed and nobody should wait for the slowest",
    start=Start(lr=0.1, momentum=0.0),  # asynchrony acts as momentum already
    laws=(
        Equals("one worker is plain SGD", Case(asgd(), 1, momentum=0.9), Case(momentum=0.9)),
        Equals(
            "held together by a lockstep schedule it is synchronous SGD",
            Case(asgd().but(schedule=every_step()), 3, momentum=0.9),
            Case(sync_sgd(), 3, momentum=0.9),
            within=1e-5,
        ),
    ),
)
