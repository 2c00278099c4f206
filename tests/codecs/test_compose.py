"""Every codec rides every exchange that is legal for it: gradients, progress, owners, a server."""

from __future__ import annotations

import pytest
import torch

from tightwire.algebra.codec import Codec
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.recipe import ways
from tightwire.codecs.chunked import chunked
from tightwire.codecs.dct import dct
from tightwire.codecs.fixed import fixed
from tightwire.codecs.half import half
from tightwire.codecs.qsgd import qsgd
from tightwire.codecs.randomk import randomk
from tightwire.codecs.sign import sign
from tightwire.codecs.terngrad import terngrad
from tightwire.codecs.threshold import threshold
from tightwire.exchanges.allreduce import allreduce
from tightwire.exchanges.gather import gather
from tightwire.exchanges.owners import owners
from tightwire.memories.residual import residual
from tightwire.recipes.asgd import asgd
from tightwire.recipes.diloco import diloco
from tightwire.recipes.entry import Case
from tightwire.recipes.make import recipe
from tightwire.testing.cases import distance, train

CODECS: list[Codec] = [
    half(), randomk(0.5), threshold(0.01, most=0.5), terngrad(scaler="own"), qsgd(), sign(), fixed(), dct(8, chunk=4),
    chunked(0.5, chunk=16),
]  # fmt: skip
codecs = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: type(codec).__name__)
START = train(Case(recipe("still"), 1, rate=0.0, steps=1))


def moves(case: Case) -> None:
    """The run ends with finite weights that all workers share, elsewhere than where it began."""
    answer = train(case)
    assert all(bool(torch.isfinite(weight).all()) for weight in answer.values())
    assert distance(answer, START) > 1e-3


@codecs
def test_gradients(codec: Codec) -> None:
    exchange = gather("as_encoded") if codec.combines == "gather" else allreduce()
    moves(Case(recipe("mine", memory=residual(), codec=codec, exchange=exchange), 3, steps=6))


@codecs
def test_progress(codec: Codec) -> None:
    exchange = gather("as_encoded") if codec.combines == "gather" else allreduce()
    moves(Case(diloco(2, codec=codec, memory=residual(), exchange=exchange), 3, steps=6))


@codecs
def test_both_ways_of_owners(codec: Codec) -> None:
    both = recipe(
        "mine", memory=ways(up=residual(), down=residual()), codec=ways(up=codec, down=codec), exchange=owners()
    )
    moves(Case(both, 3, steps=6))


@codecs
def test_up_to_a_server(codec: Codec) -> None:
    moves(Case(asgd().but(codec=codec, memory=residual()), 2, steps=6))


def test_a_shared_scaler_is_refused_where_nobody_can_share_it() -> None:
    with pytest.raises(RecipeError, match="asks all workers"):
        recipe("mine", codec=ways(up=terngrad(), down=terngrad()), exchange=owners())
    recipe("mine", codec=ways(up=terngrad(), down=terngrad(scaler="own")), exchange=owners())
