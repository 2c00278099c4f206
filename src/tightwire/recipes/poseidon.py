"""Poseidon: fully connected layers by their sufficient factors, each layer as soon as its gradient is there.

    G = (1/P)·Σ_workers Σ_k u_k·v_kᵀ         by factors while P·K·(N+M) ≤ 2·N·M, else densely; exact either way

Zhang, Zheng, Xu, Dai, Ho, Liang, Hu, Wei, Xie, Xing: Poseidon. USENIX ATC 2017, arXiv 1706.03292.
Matrices are asked about one by one, so that the exchange of a layer starts when its backward pass has ended (wait-free
back-propagation); convolutions, biases and norms go by all-reduce.
"""

from __future__ import annotations

from tightwire.algebra.check import check
from tightwire.algebra.exchange import Exchange
from tightwire.algebra.grain import Grain, tensor
from tightwire.algebra.recipe import AnyRecipe, everything, parts
from tightwire.codecs.factors import Scheme, factors
from tightwire.exchanges.allreduce import allreduce
from tightwire.recipes.entry import Case, Equals, Paper, RecipeEntry
from tightwire.recipes.make import recipe
from tightwire.recipes.sync_sgd import sync_sgd


def matrix(name: str, shape: tuple[int, ...]) -> bool:
    """Match matrices: the weights of fully connected layers, and others that will go densely."""
    return len(shape) == 2


def poseidon(
    scheme: Scheme = "cheaper",
    *,
    exchange: Exchange = allreduce(),  # noqa: B008
    grain: Grain = tensor(),  # noqa: B008
) -> AnyRecipe:
    """Gradients of linear layers as factors, where that is ``cheaper``; ``factors`` or ``dense`` take one way always.

    >>> poseidon().choices[0].recipe.codec.scheme
    'cheaper'
    """
    connected = recipe("poseidon", codec=factors(scheme), exchange=exchange, grain=grain)
    rest = recipe("poseidon-rest", exchange=exchange)
    return check(parts((matrix, connected), (everything, rest), name="poseidon"))


entry = RecipeEntry(
    name="poseidon",
    make=poseidon,
    paper=Paper(
        "Zhang, Zheng, Xu, Dai, Ho, Liang, Hu, Wei, Xie, Xing",
        "Poseidon: An Efficient Communication Architecture for Distributed Deep Learning on GPU Clusters",
        "USENIX ATC 2017, arXiv 1706.03292",
    ),
    when="large fully connected layers, small batches, few workers: fewer bytes and not a bit less exact",
    laws=(
        Equals("one worker is plain SGD", Case(poseidon(), 1, momentum=0.9), Case(momentum=0.9)),
        Equals(
            "factors alone are synchronous SGD",
            Case(poseidon("factors"), 3, momentum=0.9),
            Case(sync_sgd(), 3, momentum=0.9),
            within=1e-5,
        ),
        Equals(
            "whatever is cheaper is synchronous SGD",
            Case(poseidon(), 3, momentum=0.9),
            Case(sync_sgd(), 3, momentum=0.9),
            within=1e-5,
        ),
        Equals(
            "dense alone is synchronous SGD",
            Case(poseidon("dense"), 2, momentum=0.9),
            Case(sync_sgd(), 2, momentum=0.9),
        ),
    ),
)
