"""The original EASGD: worker 0 meets the centre, then worker 1, and so on; nobody may overtake.

    iteration t, worker j = t mod P:   x_j ← x_j − α·(x_j − c) − η·g;   c ← c + α·(x_j − c)          α = β/P

Zhang, Choromanska, LeCun: Deep learning with Elastic Averaging SGD. NIPS 2015, arXiv 1412.6651 (its analysis); You,
Buluç, Demmel: SC 2017, arXiv 1708.02983 (as the baseline they speed up). On f = x²/2 it is stable for 0 ≤ η ≤ 2 and
0 ≤ α ≤ (4 − 2η)/(4 − η). Its result does not depend on who is fast.
"""

from __future__ import annotations

from tightwire.algebra.recipe import Recipe
from tightwire.recipes.async_easgd import async_easgd
from tightwire.recipes.easgd import PAPER
from tightwire.recipes.entry import Case, Equals, RecipeEntry, Start
from tightwire.schedules.turns import round_robin


def round_robin_easgd(beta: float = 0.9, *, tau: int = 1) -> Recipe:
    """Springs of strength ``beta``/P every ``tau`` steps, in the order of ranks."""
    turns = round_robin(tau, "before_local")
    return async_easgd(beta, tau=tau).but(name="round-robin-easgd", schedule=turns)


entry = RecipeEntry(
    name="round-robin-easgd",
    make=round_robin_easgd,
    paper=PAPER,
    when="elastic averaging must give the same bits whatever workers do; otherwise async-easgd is faster",
    start=Start(lr=0.6, momentum=0.0),
    laws=(
        Equals(
            "async-easgd whose workers happen to come in turn",
            Case(round_robin_easgd(), 3, momentum=0.9),
            Case(async_easgd(), 3, momentum=0.9),
        ),
        Equals("without springs the centre stays where it was", Case(round_robin_easgd(0.0), 3), Case(steps=0)),
    ),
)
