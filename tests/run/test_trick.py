"""Convolutions by data, fully connected layers by units: the gradient of the whole batch, whatever the scheme."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.worlds import processes
from tightwire.algebra.errors import JoinError, RecipeError
from tightwire.algebra.recipe import Recipe
from tightwire.recipes import weird_trick
from tightwire.run.join import join
from tightwire.run.together import together
from tightwire.run.wire import Wire
from tightwire.splits.trick import Scheme

STEPS, EACH, FEATURES, RATE = 3, 6, 18, 0.2


def network() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(
        nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(FEATURES, 10), nn.Tanh(), nn.Linear(10, 7), nn.ReLU(),
        nn.Linear(7, 5),
    )  # fmt: skip


def batches(workers: int) -> list[tuple[Tensor, Tensor]]:
    torch.manual_seed(3)
    return [(torch.randn(workers * EACH, 1, 4, 4), torch.randint(5, (workers * EACH,))) for _ in range(STEPS)]


def one(recipe: Recipe, rank: int, workers: int) -> tuple[dict[str, Tensor], list[float], Wire]:
    model, losses = network(), []
    with join(recipe, model, torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)) as wire:
        for x, y in batches(workers):
            loss = wire.batch(x.tensor_split(workers)[rank], y.tensor_split(workers)[rank], F.cross_entropy)
            wire.step(loss)
            assert loss is not None
            losses.append(float(loss))
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}, losses, wire


def alone(workers: int) -> tuple[dict[str, Tensor], list[float]]:
    model, losses = network(), []
    sgd = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    for x, y in batches(workers):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        losses.append(float(loss.detach()))
        sgd.step()
        sgd.zero_grad()
    return {name: weight.detach() for name, weight in model.named_parameters()}, losses


def assert_same(got: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    for name, weight in wanted.items():
        torch.testing.assert_close(got[name], weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scheme", ["a", "b", "c"])
@pytest.mark.parametrize("workers", [2, 3])
def test_all_schemes_give_the_gradient_of_the_whole_batch(scheme: Scheme, workers: int) -> None:
    wanted, losses = alone(workers)
    for weights, said, _ in together(workers, lambda rank: one(weird_trick(workers, scheme=scheme), rank, workers)):
        assert_same(weights, wanted)
        assert said == pytest.approx(losses, rel=1e-5)


def test_one_sender_has_all_of_a_pass_in_b_and_a_share_in_c() -> None:
    """The size of what one worker sends another in a pass: b·A numbers with b, b·A/K with c."""
    workers = 3
    sizes = {}
    for scheme in ("b", "c"):
        rows = weird_trick(workers, scheme=scheme).split.passes((EACH,) * workers)  # type: ignore[arg-type,attr-defined]
        sizes[scheme] = max(end - start for given in rows for start, end in given)
        assert sum(end - start for given in rows for start, end in given) == workers * EACH
    assert sizes == {"b": EACH, "c": EACH // workers}


def test_bytes_are_what_the_formula_says() -> None:
    """Scheme a: everybody's activations to all others, units of each layer there, errors of all of it back."""
    workers = 2
    _, _, wire = together(workers, lambda rank: one(weird_trick(workers, scheme="a"), rank, workers))[0]
    rows = {row["group"]: row["nbytes"] for row in wire.ledger.rows()
            if row["phase"] == "boundary" and row["direction"] == "tx" and row["nbytes"]}  # fmt: skip
    whole, others = workers * EACH, workers - 1
    there = 4 * EACH * FEATURES + 4 * whole * (5 + 3)  # activations, my units of two layers
    back = 4 * EACH * FEATURES + 4 * whole * (5 + 4)  # errors of the other's examples and units
    numbers = 4 + 8 * EACH + 4 * 3 * whole  # batch size, labels, softmax
    headers = 9 * 8 * 9
    assert rows == {"0-1": others * (STEPS * (there + back + numbers) + headers)}


def test_fully_connected_layers_may_be_updated_after_each_pass() -> None:
    """Two workers, plain SGD: two small steps of the fully connected layers, one large step of the convolution."""

    def run(rank: int) -> dict[str, Tensor]:
        model = network()
        recipe = weird_trick(2, scheme="b", update="each pass")
        with join(recipe, model, torch.optim.SGD(model.parameters(), lr=RATE)) as wire:
            x, y = batches(2)[0]
            wire.batch(x.tensor_split(2)[rank], y.tensor_split(2)[rank], F.cross_entropy)
            wire.step()
        return {name: weight.detach().clone() for name, weight in model.named_parameters()}

    model = network()
    x, y = batches(2)[0]
    kernels = [parameter for name, parameter in model.named_parameters() if name.startswith("0.")]
    total = [torch.zeros_like(parameter) for parameter in kernels]
    for part_x, part_y in zip(x.tensor_split(2), y.tensor_split(2), strict=True):
        model.zero_grad()
        F.cross_entropy(model(part_x), part_y).backward()
        for kernel, gradient in zip(kernels, total, strict=True):
            assert kernel.grad is not None
            gradient.add_(kernel.grad / 2)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if not name.startswith("0."):
                    parameter.sub_(RATE * parameter.grad)  # type: ignore[operator]
    with torch.no_grad():
        for kernel, gradient in zip(kernels, total, strict=True):
            kernel.sub_(RATE * gradient)
    wanted = {name: weight.detach() for name, weight in model.named_parameters()}
    for weights in together(2, run):
        assert_same(weights, wanted)


def in_a_process() -> Any:
    import os  # noqa: PLC0415 -- in the child

    weights, _, _ = one(weird_trick(2, scheme="c"), int(os.environ["RANK"]), 2)
    return {name: weight.tolist() for name, weight in weights.items()}


@pytest.mark.processes
def test_real_processes_do_the_same() -> None:
    wanted, _ = alone(2)
    for weights in processes(2, in_a_process):
        assert_same({name: torch.tensor(weight) for name, weight in weights.items()}, wanted)


def refused(*layers: nn.Module) -> str:
    def run(rank: int) -> None:
        model = nn.Sequential(*layers)
        join(weird_trick(2), model, torch.optim.SGD(model.parameters(), lr=RATE))

    with pytest.raises(JoinError) as found:
        together(2, run)
    return str(found.value)


def test_what_does_not_act_on_each_unit_alone_is_refused() -> None:
    assert "LayerNorm does not act on each unit alone" in refused(nn.Linear(2, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    assert "there is none" in refused(nn.Conv2d(1, 1, 1))
    assert "an nn.Linear at the end" in refused(nn.Linear(2, 4), nn.ReLU())


@pytest.mark.parametrize(("words", "says"), [({"scheme": "d"}, "give a, b or c"), ({"update": "never"}, "each pass"),
                                             ({"workers": 0}, "at least one worker")])  # fmt: skip
def test_unknown_words_are_refused(words: dict[str, Any], says: str) -> None:
    with pytest.raises(RecipeError, match=says):
        weird_trick(**words)
