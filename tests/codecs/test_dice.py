"""Random numbers by place: uniform, unrelated from step to step and rank to rank, the same wherever a tensor is cut."""

from __future__ import annotations

import pytest
import torch

from tightwire.algebra.tensors import Spec
from tightwire.algebra.world import At, World
from tightwire.codecs.dice import uniform, words

CPU = torch.device("cpu")
SPEC = Spec.pack([("w", (300, 40)), ("b", (50,)), ("v", (300, 40))])


def drawn(at: At, spec: Spec = SPEC) -> torch.Tensor:
    return uniform(spec, at, CPU)


def correlation(one: torch.Tensor, two: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack([one, two]))[0, 1])


@pytest.mark.parametrize("step", range(5))
def test_they_are_uniform(step: int) -> None:
    u = drawn(At(step=step))
    assert float(u.min()) >= 0 and float(u.max()) < 1
    counts = torch.histc(u, 20, 0, 1)
    expected = u.numel() / 20
    assert float(((counts - expected) ** 2 / expected).sum()) < 60  # chi-square, 19 degrees: 1 in 10^6 by chance
    assert abs(correlation(u[:-1], u[1:])) < 0.03
    assert abs(correlation(u[:-40], u[40:])) < 0.03


def test_steps_ranks_seeds_and_tensors_draw_unrelated_numbers() -> None:
    here = drawn(At(step=5))
    for other in (At(step=6), At(step=5, world=World(1, 2)), At(step=5, seed=1)):
        assert abs(correlation(here, drawn(other))) < 0.03
    assert abs(correlation(here[:12000], here[12050:])) < 0.03


def test_cutting_between_rows_changes_no_draw() -> None:
    whole = drawn(At(step=2))
    for pieces in (2, 3, 7):
        cut = torch.cat([drawn(At(step=2), spec) for _, spec in SPEC.cut(pieces)])
        assert torch.equal(cut, whole)


def test_places_beyond_32_bits_are_reached() -> None:
    far = 5 * 2**32 + 7
    assert torch.equal(words(10, 99, CPU, first=far)[3:], words(7, 99, CPU, first=far + 3))


def test_every_word_is_another() -> None:
    assert words(1 << 18, 12345678901234567, CPU).unique().numel() == 1 << 18
