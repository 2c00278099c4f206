"""The laws of recipes: whole runs on the in-process link."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from tightwire.algebra.grain import Grain, bucket, tensor, whole
from tightwire.algebra.recipe import AnyRecipe, Choice, Parts, Phase, Phases, Recipe, Tiers, leaves
from tightwire.recipes.entry import Case, Equals, RecipeEntry
from tightwire.run.join import join
from tightwire.run.together import together
from tightwire.run.wire import Wire
from tightwire.testing.cases import STEPS_PER_EPOCH, batches, distance, network, part, train
from tightwire.testing.cases import whole as all_of

_HALF = 6


def check_degenerate(law: Equals) -> None:
    """Both cases end with the same weights."""
    apart = distance(train(law.left), train(law.right))
    assert apart <= law.within, f"{law.says}: weights differ by {apart:.2e}, allowed {law.within:.0e}"


def check_deterministic(entry: RecipeEntry) -> None:
    """The same seed gives the same bits."""
    case = Case(entry.make(), entry.workers)
    assert distance(train(case), train(case)) == 0.0


def check_grain(entry: RecipeEntry, within: float = 0.0) -> None:
    """How tensors are packed changes nothing: bit for bit with two workers, where sums have one order only."""
    workers = min(2, entry.workers)
    results = [train(Case(with_grain(entry.make(), g), workers)) for g in (tensor(), whole(), bucket(0.0001, 0.00005))]
    for other in results[1:]:
        assert distance(other, results[0]) <= within


def check_resumes(entry: RecipeEntry) -> None:
    """A worker that loads a checkpoint goes on as the one that saved it did, bit for bit.

    Who comes first at a server is not part of a checkpoint: without a lockstep schedule only one worker can promise it.
    """
    lockstep = all(leaf.recipe.schedule.lockstep for leaf in leaves(entry.make()))
    workers = entry.workers if lockstep else 1
    with tempfile.TemporaryDirectory() as folder:

        def straight(wire: Wire) -> None:
            _advance(wire, 0, _HALF)
            wire.save(folder)
            _advance(wire, _HALF, 2 * _HALF)

        def resumed(wire: Wire) -> None:
            assert wire.load(folder) == []
            _advance(wire, _HALF, 2 * _HALF)

        wanted = _run(entry, workers, straight)
        assert distance(_run(entry, workers, resumed), wanted) == 0.0


def check_new_world(entry: RecipeEntry, workers: int) -> None:
    """Loaded with another number of workers, a run owes in sum what it owed, has the same answer, and goes on."""
    if any(leaf.recipe.split.stages > 1 for leaf in leaves(entry.make())):
        return
    owed: list[dict[str, Tensor]] = []
    answers: list[dict[str, Tensor]] = []
    with tempfile.TemporaryDirectory() as folder:

        def save(wire: Wire) -> None:
            _advance(wire, 0, _HALF)
            _note(wire, owed, answers)
            wire.save(folder)

        def load(wire: Wire) -> None:
            assert wire.load(folder), "a new world must say what it changed"
            _note(wire, owed, answers)
            _advance(wire, _HALF, 2 * _HALF)

        _run(entry, entry.workers, save)
        before, answer = _total(owed), answers[0]
        owed.clear()
        answers.clear()
        _run(entry, workers, load)
    after = _total(owed)
    assert before.keys() == after.keys()
    for name, tensor_ in before.items():
        torch.testing.assert_close(after[name], tensor_, rtol=1e-5, atol=1e-7)
    assert distance(answers[0], answer) < 1e-6, "the answer changed with the number of workers"


def _note(wire: Wire, owed: list[dict[str, Tensor]], answers: list[dict[str, Tensor]]) -> None:
    mine: dict[str, Tensor] = {}
    for lane in wire._worker.lanes:
        for name, tensor_ in lane.owed():
            mine[name] = tensor_.clone()
    owed.append(mine)
    with wire.answer() as model:
        answers.append({name: weight.detach().clone() for name, weight in model.named_parameters()})


def _total(owed: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    total: dict[str, Tensor] = {}
    for mine in owed:
        for name, tensor_ in mine.items():
            total[name] = total[name] + tensor_ if name in total else tensor_.clone()
    return total


def _advance(wire: Wire, first: int, last: int) -> None:
    mine = all_of if wire.pipeline is not None else part(wire.rank, wire.size)
    for step, (x, y) in enumerate(batches("mlp", last)[first:], start=first):
        wire.epochs = step / STEPS_PER_EPOCH
        wire.batch(mine(x), mine(y), F.mse_loss)
        wire.step()


def _run(entry: RecipeEntry, workers: int, script: Callable[[Wire], None]) -> dict[str, Tensor]:
    """Rank 0's answer after all workers ran a script."""

    def one(rank: int) -> dict[str, Tensor]:
        model = network("mlp")
        with join(entry.make(), model, torch.optim.SGD(model.parameters(), lr=0.05)) as wire:
            script(wire)
        return {name: weight.detach() for name, weight in model.named_parameters()}

    return together(workers, one)[0]


def with_grain(recipe: AnyRecipe, grain: Grain) -> AnyRecipe:
    """The same recipe, packed differently."""
    match recipe:
        case Recipe():
            return recipe.but(grain=grain)
        case Phases():
            return replace(recipe, legs=tuple(Phase(leg.until, with_grain(leg.recipe, grain)) for leg in recipe.legs))
        case Tiers():
            return replace(recipe, outer=with_grain(recipe.outer, grain))
        case Parts():
            choices = (Choice(choice.match, with_grain(choice.recipe, grain)) for choice in recipe.choices)
            return replace(recipe, choices=tuple(choices))
