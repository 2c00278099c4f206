"""Workers in different processes describe the same recipe in the same words."""

import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from tests.worlds import processes
from tightwire.algebra.recipe import describe
from tightwire.algebra.world import At
from tightwire.recipes import CATALOGUE, dgc
from tightwire.run.join import join

SCRIPT = (
    "from tightwire.recipes import CATALOGUE; from tightwire.algebra.recipe import describe; "
    "print([describe(entry.make()) for entry in CATALOGUE.values()])"
)


def test_words_do_not_depend_on_the_process() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(said) == 1
    assert b" at 0x" not in said.pop()


def test_words_differ_where_recipes_do() -> None:
    texts = [describe(entry.make()) for entry in CATALOGUE.values()]
    assert len(set(texts)) == len(texts)
    assert describe(dgc(0.01)) != describe(dgc(0.001))


def falling(at: At) -> float:
    return 1.0 / (at.step + 1)


def train_with_a_function() -> int:
    model = nn.Linear(8, 8)
    with join(dgc(falling), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
        for _ in range(3):
            model(torch.ones(1, 8)).sum().backward()
            wire.step()
        return wire.ledger.payload_bytes


@pytest.mark.processes
def test_a_density_may_be_a_function_of_the_moment() -> None:
    first, second = processes(2, train_with_a_function)
    assert first == second > 0
