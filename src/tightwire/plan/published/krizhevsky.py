"""One weird trick: convolutions by data, fully connected layers by model.

`weird-trick` computes it, but splits by units are not priced yet. So its traffic is put together from parts that are:
gradients of convolutions go by all-reduce, and the activations that each card needs of all others, and their errors on
the way back, by a gather.
"""

from __future__ import annotations

from tightwire.algebra.recipe import AnyRecipe, everything, parts
from tightwire.codecs.half import half
from tightwire.exchanges.gather import gather
from tightwire.plan.cluster import Link, flat
from tightwire.plan.cost import predict
from tightwire.plan.published.dgc import shapes_of
from tightwire.plan.published.paper import Claim, Paper, span, stated_profile
from tightwire.recipes.catalogue import by_name
from tightwire.recipes.make import recipe

HOURS, EPOCHS, IMAGES, BATCH = 98.05, 90, 1_281_167, 128
ACTIVATIONS = 9216 + 4096 + 4096 + 1000  # of one example: the last convolution's, and the fully connected layers'
PCIE = (4e9, 12e9)


def paper() -> Paper:
    """The hybrid on 4 and 8 cards, and what data parallelism alone would give."""
    hybrid = _hybrid()
    claims: dict[int, Claim] = {}
    for cards, printed in ((4, 3.66), (8, 6.25)):
        found = [_speedup(hybrid, cards, speed, hidden) for speed in PCIE for hidden in (True, False)]
        claims[cards] = Claim(
            f"hybrid, {cards} cards", printed, *span(found), evidence="second-hand",
            open="bandwidth between cards: 4 to 12 GB/s; whether activations cross while others compute; 90 epochs",
        )  # fmt: skip
    plain = [_speedup(by_name("sync-sgd"), 8, speed) for speed in PCIE]
    return Paper(
        "One weird trick",
        "Krizhevsky: One weird trick for parallelizing convolutional neural networks. arXiv 1404.5997, 2014; figures "
        "as Dettmers (ICLR 2016) quotes them",
        "AlexNet, 98.05 hours on one K20, batches of 128 a card; convolutions by data, fully connected layers by model",
        tuple(claims.values()),
        remark=f"By data alone, 8 cards would reach {min(plain):.1f} to {max(plain):.1f}× over the same links. Traffic "
        "does not explain why the hybrid stops at 6.25×.",
        curves={"hybrid": claims},
    )


def _activations(name: str, shape: tuple[int, ...]) -> bool:
    return name == "activations"


def _hybrid() -> AnyRecipe:
    crossing = recipe("activations", codec=half(), exchange=gather(format="as_encoded"))
    return parts((_activations, crossing), (everything, by_name("sync-sgd")), name="hybrid")


def _speedup(method: AnyRecipe, cards: int, bytes_per_s: float, hidden: bool = True) -> float:
    shapes = dict(shapes_of("alexnet"))
    if method.name == "hybrid":
        convolutions = {name.rpartition(".")[0] for name, shape in shapes.items() if len(shape) == 4}
        shapes = {name: shape for name, shape in shapes.items() if name.rpartition(".")[0] in convolutions}
        crossing = {"activations": (2 * 2 * BATCH, ACTIVATIONS)}  # forward and back; two halves are one float32
        shapes = {**shapes, **crossing} if hidden else {**crossing, **shapes}  # what stands first is ready last
    seconds = HOURS * 3600 / (EPOCHS * IMAGES / BATCH)
    profile = stated_profile(shapes, method, seconds=seconds, batch=BATCH)
    return predict(method, profile, flat(Link(10e-6, bytes_per_s)), cards).speedup
