"""What compressed recipes really hand to the transport, counted to the byte, headers and questions included."""

from __future__ import annotations

import itertools
from math import ceil

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tightwire as tw
from tightwire.algebra.recipe import AnyRecipe

WORKERS, STEPS = 4, 3
WIDTHS = (96, 64, 40, 10)
TENSORS = [shape for a, b in itertools.pairwise(WIDTHS) for shape in ((b, a), (b,))]
SIZES = [b * a for (b, *rest) in TENSORS for a in (rest or [1])]
NUMEL = sum(SIZES)
ROWS = sum(shape[0] if len(shape) > 1 else 1 for shape in TENSORS)
FRAME = 8  # a payload's length
TO_ALL = WORKERS - 1
BOTH_WAYS = 2 * (WORKERS - 1) / WORKERS


def sent_a_step(recipe: AnyRecipe) -> float:
    """Bytes that a worker sends in a step, on average over workers."""

    def one(rank: int) -> float:
        torch.manual_seed(0)
        layers = [nn.Linear(a, b) for a, b in itertools.pairwise(WIDTHS)]
        model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
        with tw.join(recipe, model, torch.optim.SGD(model.parameters(), lr=0.01)) as wire:
            for step in range(STEPS):
                torch.manual_seed(100 * step + rank)
                F.cross_entropy(model(torch.randn(8, WIDTHS[0])), torch.randint(10, (8,))).backward()
                wire.step()
            assert {row["known"] for row in wire.ledger.rows()} == {"counted"}
            return wire.ledger.tx_bytes / STEPS

    return sum(tw.together(WORKERS, one)) / WORKERS


@pytest.mark.parametrize(
    ("recipe", "payload"),
    [
        (tw.recipes.qsgd(), ceil(NUMEL / 2) + 4 * sum(ceil(n / 512) for n in SIZES)),
        (tw.recipes.qsgd(3), ceil(NUMEL * 3 / 8) + 4 * sum(ceil(n / 512) for n in SIZES)),
        (tw.recipes.ef_sign(), ceil(NUMEL / 8) + 4 * len(SIZES)),
        (tw.recipes.ef_sign("row"), ceil(NUMEL / 8) + 4 * ROWS),
        (tw.recipes.top_k(0.01), 6 * sum(ceil(n / 100) for n in SIZES)),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_gathered_payloads_have_the_published_bytes(recipe: AnyRecipe, payload: int) -> None:
    assert sent_a_step(recipe) == TO_ALL * (payload + FRAME)


def test_terngrad_takes_two_bits_an_element_and_its_scalers() -> None:
    scalers = 4 * len(SIZES)
    sent = sent_a_step(tw.recipes.terngrad())
    assert sent <= TO_ALL * (2.0 * NUMEL / 8 + 1 + scalers + FRAME) + BOTH_WAYS * scalers
    assert sent > TO_ALL * 2.0 * NUMEL / 8


def test_onebit_takes_one_bit_an_element_and_its_row_means() -> None:
    sent = sent_a_step(tw.recipes.one_bit())
    messages = 2 * TO_ALL
    assert sent <= BOTH_WAYS * (1.05 * NUMEL / 8 + 8 * ROWS) + FRAME * messages
    assert sent > BOTH_WAYS * NUMEL / 8


@pytest.mark.parametrize(
    ("recipe", "nbytes"), [(tw.recipes.half(), 2), (tw.recipes.half("bfloat16"), 2), (tw.recipes.fixed_point(2, 6), 1)]
)
def test_halves_and_words_cost_what_a_ring_of_them_would(recipe: AnyRecipe, nbytes: int) -> None:
    assert sent_a_step(recipe) == BOTH_WAYS * nbytes * NUMEL + FRAME * 2 * TO_ALL
