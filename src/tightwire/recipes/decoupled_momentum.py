"""DeMo: each worker keeps its own momentum, and only its strongest frequencies are exchanged.

    δ ← β·δ + g;   Y = DCT of each 64×64 chunk of δ;   send the 32 largest |Y|;   δ ← δ − what was sent
    q = (1/P)·Σ_k DCT⁻¹(sent_k);   w ← w − η·sign(q)

Peng, Quesnelle, Kingma: DeMo: Decoupled Momentum Optimization. arXiv 2411.19870, 2024.
The momentum is the memory: what has not been sent, fading by β a step. Workers' momenta differ and are never made
equal. A coefficient counts 1/P for each worker that sent it: so what arrives is linear in what was sent, and nothing
arrives that no memory gave up. The authors' code divides by the number of senders instead.
"""

from __future__ import annotations

from typing import Literal

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.recipe import Recipe
from tightwire.algebra.rule import Rule
from tightwire.codecs.dct import dct
from tightwire.codecs.picks import Values
from tightwire.exchanges.gather import gather
from tightwire.memories.fading import fading
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry, Start
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd
from tightwire.rules.signed import signed
from tightwire.rules.yours import yours

_STEPS: dict[str, Rule] = {"sign": signed(), "plain": yours()}


def decoupled_momentum(
    keep: int = 32,
    *,
    decay: float = 0.999,
    chunk: int = 64,
    values: Values = "bfloat16",
    step: Literal["sign", "plain"] = "sign",
) -> Recipe:
    """The ``keep`` strongest frequencies of each chunk; your optimizer steps on their sign, or on them as they are."""
    if step not in _STEPS:
        raise RecipeError(f"decoupled-momentum(step={step!r}): give one of {', '.join(_STEPS)}")
    return recipe(
        "decoupled-momentum",
        memory=fading(decay),
        codec=dct(keep, chunk=chunk, values=values),
        exchange=gather(),
        center=_STEPS[step],
    )


entry = RecipeEntry(
    name="decoupled-momentum",
    make=decoupled_momentum,
    paper=Paper(
        "Peng, Quesnelle, Kingma",
        "DeMo: Decoupled Momentum Optimization",
        "arXiv 2411.19870, 2024",
    ),
    when="large matrices, a wire about 100 times too slow, and sign descent (as with Lion or signSGD) suits the model",
    start=Start(lr=0.005, momentum=0.0),
    laws=(
        Equals(
            "with all frequencies, and steps as they are, it is synchronous SGD",
            Case(decoupled_momentum(4096, values="float32", step="plain"), 3, momentum=0.9),
            Case(sync_sgd(), 3, momentum=0.9),
            within=1e-5,
        ),
        Equals(
            "one worker with all frequencies, and steps as they are, is your optimizer",
            Case(decoupled_momentum(4096, values="float32", step="plain"), 1, momentum=0.9),
            Case(momentum=0.9),
            within=1e-5,
        ),
    ),
)
