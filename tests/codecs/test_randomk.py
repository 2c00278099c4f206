"""Random-k: the same positions on all workers, others at each step, each as likely, and only values travel."""

from __future__ import annotations

from math import ceil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.codecs.common import bucket, encoded, rebuilt
from tightwire.algebra.codec import Payload, SparseSent
from tightwire.algebra.errors import PayloadError, RecipeError
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.randomk import randomk


def positions(density: float, x: Bucket, step: int = 3) -> list[int]:
    sent = encoded(randomk(density), x, step=step)[0].sent
    assert isinstance(sent, SparseSent)
    return sent.index_K.tolist()


@given(st.floats(0.01, 1.0), st.integers(1, 300))
def test_so_many_positions_are_drawn_and_none_twice(density: float, numel: int) -> None:
    drawn = positions(density, bucket((numel,)))
    assert drawn == sorted(set(drawn))
    assert len(drawn) == min(numel, ceil(numel * density))
    assert encoded(randomk(density), bucket((numel,)))[0].payload.nbytes == 4 * len(drawn)


def test_all_workers_draw_the_same_positions() -> None:
    sents = [e.sent for e in encoded(randomk(0.1), bucket((200,), seed=1), bucket((200,), seed=2))]
    assert all(isinstance(sent, SparseSent) for sent in sents)
    assert sents[0].index_K.tolist() == sents[1].index_K.tolist()  # type: ignore[attr-defined]


def test_every_step_draws_others_and_every_element_comes_up() -> None:
    x = bucket((60,))
    seen = [positions(0.1, x, step) for step in range(200)]
    assert len({tuple(drawn) for drawn in seen}) > 190
    counts = torch.bincount(torch.tensor(seen).flatten(), minlength=60)
    assert int(counts.min()) > 5 and int(counts.max()) < 45  # 20 each on average


def test_density_1_is_exact_and_unscaled() -> None:
    x = bucket((9, 7), (5,))
    for codec in (randomk(1.0), randomk(1.0, scale="unbiased")):
        assert torch.equal(rebuilt(codec, x).flat, x.flat)


def test_unbiased_values_are_worth_their_stratum() -> None:
    x = Bucket(torch.ones(100), Spec.pack([("w", (100,))]))
    assert rebuilt(randomk(0.1, scale="unbiased"), x).flat.unique().tolist() == [0.0, 10.0]
    assert float(rebuilt(randomk(0.1, scale="unbiased"), x).flat.sum()) == 100


@pytest.mark.parametrize("density", [0.0, -0.1, 1.1])
def test_a_density_that_is_none_is_refused(density: float) -> None:
    with pytest.raises(RecipeError, match="density"):
        randomk(density)


def test_a_payload_of_another_length_is_refused() -> None:
    x = bucket((20,))
    with pytest.raises(PayloadError, match="belong"):
        randomk(0.5).decode_(x, Payload(torch.zeros(9)), {}, At())
