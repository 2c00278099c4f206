"""Project Adam: activations and errors of fully connected layers go up to a server, weights come down.

    worker: w ← pull;  push (u_k, v_k) of K samples          server, on every push: c ← OptimizerStep(c, Σ_k u_k·v_kᵀ)

Chilimbi, Suzue, Apacible, Kalyanaraman: Project Adam: Building an Efficient and Scalable Deep Learning Training System.
OSDI 2014. Asynchronous SGD in which a layer costs K·(N+M) values on the way up instead of N·M; the way down is dense.
"""

from __future__ import annotations

from tightwire.algebra.grain import whole
from tightwire.algebra.recipe import Recipe
from tightwire.algebra.schedule import Schedule
from tightwire.codecs.outer import outer
from tightwire.exchanges.server import server
from tightwire.recipes.asgd import asgd
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd
from tightwire.schedules.clock import asynchronous, every_step


def project_adam(schedule: Schedule = asynchronous()) -> Recipe:  # noqa: B008
    """Push factors, pull the centre; with ``asynchronous()`` nobody ever waits."""
    return recipe("project-adam", codec=outer(), exchange=server(), schedule=schedule, grain=whole())


entry = RecipeEntry(
    name="project-adam",
    make=project_adam,
    paper=Paper(
        "Chilimbi, Suzue, Apacible, Kalyanaraman",
        "Project Adam: Building an Efficient and Scalable Deep Learning Training System",
        "OSDI 2014",
    ),
    when="asynchronous SGD with large fully connected layers, where the way up is the narrow one",
    start=Start(lr=0.1, momentum=0.0),  # asynchrony acts as momentum already
    laws=(
        Equals("one worker is plain SGD", Case(project_adam(), 1, momentum=0.9), Case(momentum=0.9), within=1e-5),
        Equals(
            "held together by a lockstep schedule it is synchronous SGD",
            Case(project_adam(every_step()), 4, momentum=0.9),
            Case(sync_sgd(), 4, momentum=0.9),
            within=1e-5,
        ),
        Equals("it is asynchronous SGD with fewer bytes", Case(project_adam(), 4), Case(asgd(), 4), within=1e-5),
    ),
)
