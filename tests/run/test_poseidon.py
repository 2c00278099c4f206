"""Poseidon on whole networks: the same weights as synchronous SGD, and the bytes that its rule promises."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.run.test_overlap import events_of_one_step
from tests.worlds import processes
from tightwire.algebra.grain import Grain, bucket, tensor
from tightwire.algebra.recipe import AnyRecipe, forever, phases
from tightwire.codecs.factors import Scheme
from tightwire.exchanges.allreduce import ring
from tightwire.recipes import poseidon, sync_sgd, top_k
from tightwire.run.join import join
from tightwire.run.together import together
from tightwire.run.wire import Wire
from tightwire.telemetry.ledger import Ledger

WORKERS, STEPS = 3, 4
SHAPES = [(50, 30), (40, 50), (5, 40)]  # with K = 4 the first two go by factors, the last one densely
Trained = tuple[dict[str, Tensor], Ledger]


def network() -> nn.Sequential:
    torch.manual_seed(3)
    layers = [layer for n, m in SHAPES for layer in (nn.Linear(m, n), nn.LeakyReLU(inplace=True))]
    return nn.Sequential(*layers)


def data(rank: int, step: int, samples: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1000 * rank + step)
    x = torch.randn(samples, 30, generator=generator)
    return x, torch.sin(x.sum(-1, keepdim=True)).expand(-1, 5)


def train(recipe: AnyRecipe, samples: int, *, uneven: int = 0) -> Trained:
    model = network()
    with join(recipe, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)) as wire:
        for step in range(STEPS):
            x, y = data(wire.rank, step, samples + uneven * wire.rank)
            F.mse_loss(model(x), y).backward()
            wire.step()
    return {name: weight.detach() for name, weight in model.named_parameters()}, wire.ledger


def weights_after(recipe: AnyRecipe, samples: int) -> dict[str, torch.Tensor]:
    """The same without the ledger, which stays in its process."""
    return train(recipe, samples)[0]


def close(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    for name, weight in wanted.items():
        torch.testing.assert_close(found[name], weight, rtol=0, atol=1e-5)


@pytest.mark.parametrize("uneven", [0, 1], ids=["equal batches", "other batches on every worker"])
@pytest.mark.parametrize("samples", [1, 4, 64])
@pytest.mark.parametrize("scheme", ["cheaper", "factors", "dense"])
def test_every_scheme_is_synchronous_sgd(scheme: Scheme, samples: int, uneven: int) -> None:
    wanted = together(WORKERS, lambda rank: train(sync_sgd(), samples, uneven=uneven))[0][0]
    for weights, _ in together(WORKERS, lambda rank: train(poseidon(scheme), samples, uneven=uneven)):
        close(weights, wanted)


def sent_by_all(recipe: AnyRecipe, samples: int, workers: int = WORKERS) -> int:
    results = together(workers, lambda rank: train(recipe, samples))
    assert all(row["known"] == "counted" for _, ledger in results for row in ledger.rows())
    return sum(ledger.tx_bytes for _, ledger in results)


def formula(samples: int, factored: list[tuple[int, int]]) -> int:
    """Bytes of all workers together: questions, factors with their frames, and rings for the rest."""
    hops, pairs = 2 * (WORKERS - 1), WORKERS * (WORKERS - 1)
    questions = 4 * hops * len(SHAPES)
    factors = sum(pairs * (8 + 4 * samples * (n + m)) for n, m in factored)
    dense = 4 * hops * (sum(n * m for n, m in SHAPES if (n, m) not in factored) + sum(n for n, _ in SHAPES))
    return STEPS * (questions + factors + dense)


@pytest.mark.parametrize(
    ("samples", "factored"),
    [(4, [0, 1]), (12, [0, 1]), (13, [1]), (14, [1]), (15, []), (500, [])],
)
def test_counted_bytes_are_those_of_the_rule(samples: int, factored: list[int]) -> None:
    # 3·K·(50+30) ≤ 2·50·30 while K ≤ 12;  3·K·(40+50) ≤ 2·40·50 while K ≤ 14;  3·K·(5+40) ≤ 2·5·40 while K ≤ 2
    assert sent_by_all(poseidon(exchange=ring()), samples) == formula(samples, [SHAPES[index] for index in factored])


def test_it_never_costs_more_than_dense_but_for_its_questions() -> None:
    dense = sent_by_all(sync_sgd(ring()), 1)
    questions, frames = 4 * 2 * (WORKERS - 1), 8 * WORKERS * (WORKERS - 1)
    for samples in (1, 12, 13, 15, 40):
        sent = sent_by_all(poseidon(exchange=ring()), samples)
        assert sent <= dense + STEPS * len(SHAPES) * (questions + frames)


def test_alone_nothing_is_sent() -> None:
    assert sent_by_all(poseidon(), 4, workers=1) == 0


class Twisted(nn.Module):
    """A tied weight, a layer used twice, sequences, a layer called by its function, a hook, an embedding."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.words = nn.Embedding(30, 24)
        self.shared, self.direct, self.hooked, self.plain = (nn.Linear(24, 24) for _ in range(4))
        self.out = nn.Linear(24, 30)
        self.out.weight = self.words.weight
        self.hooked.weight.register_hook(lambda gradient: gradient.tril())

    def forward(self, ids_BT: Tensor) -> Tensor:
        x = self.words(ids_BT)
        x = torch.tanh(self.shared(torch.tanh(self.shared(x))))
        x = torch.relu(self.plain(x)) + F.linear(x, self.direct.weight)
        x = torch.nn.functional.relu(self.hooked(input=x) + self.hooked(x), inplace=True)
        out: Tensor = self.out(x)
        return out


def twisted(recipe: AnyRecipe, *, clip: bool, accumulate: bool) -> tuple[dict[str, Tensor], list[str]]:
    model = Twisted()
    used: list[str] = []
    with join(recipe, model, torch.optim.SGD(model.parameters(), lr=0.05)) as wire:
        for step in range(STEPS):
            ids = torch.arange(4 * (wire.rank + 1), 4 * (wire.rank + 1) + 2).view(1, 2) + step
            if accumulate:
                with wire.accumulate():
                    F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
            F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
            used = list_aside(wire)
            if clip:
                wire.clip(0.1)
            wire.step()
    return {name: weight.detach() for name, weight in model.named_parameters()}, used


def list_aside(wire: Wire) -> list[str]:
    return sorted(name for lane in wire._worker.lanes for parcel in lane.parcels for name in parcel.x.aside)


@pytest.mark.parametrize("clip", [False, True], ids=["", "clipped"])
@pytest.mark.parametrize("accumulate", [False, True], ids=["", "accumulated"])
def test_weights_that_have_no_factors_go_densely(clip: bool, accumulate: bool) -> None:
    wanted, _ = together(2, lambda rank: twisted(sync_sgd(), clip=clip, accumulate=accumulate))[0]
    for weights, used in together(2, lambda rank: twisted(poseidon("factors"), clip=clip, accumulate=accumulate)):
        close(weights, wanted)
        assert used == ([] if accumulate else ["hooked.weight", "plain.weight"])


def test_it_can_follow_a_phase_that_owes() -> None:
    def one(rank: int) -> dict[str, Tensor]:
        return train(phases((2, top_k(0.1)), (forever, poseidon("factors"))), 4)[0]

    def other(rank: int) -> dict[str, Tensor]:
        return train(phases((2, top_k(0.1)), (forever, sync_sgd())), 4)[0]

    close(together(2, one)[0], together(2, other)[0])


def test_hooks_are_gone_afterwards() -> None:
    model = network()
    with join(poseidon(), model, torch.optim.SGD(model.parameters(), lr=0.1)):
        assert any(layer._forward_hooks for layer in model)
    assert not any(layer._forward_hooks for layer in model)


def test_a_compiled_model_goes_densely() -> None:
    model = torch.compile(network(), backend="eager")
    with join(poseidon(), model, torch.optim.SGD(model.parameters(), lr=0.1)):
        assert not any(layer._forward_hooks for layer in model.modules())


@pytest.mark.processes
@pytest.mark.parametrize("grain", [tensor(), bucket()], ids=["layer by layer", "in one bucket"])
def test_over_gloo(grain: Grain) -> None:
    results = processes(WORKERS, weights_after, poseidon(grain=grain), 4)
    close(results[0], together(WORKERS, lambda rank: weights_after(sync_sgd(), 4))[0])
    for weights in results:
        assert all(torch.equal(weight, results[0][name]) for name, weight in weights.items())


@pytest.mark.processes
def test_the_exchange_of_a_layer_does_not_wait_for_the_others() -> None:
    for events in processes(2, events_of_one_step, poseidon("factors", exchange=ring())):
        ready = [name for kind, name in events if kind == "Ready"]
        started = [name for kind, name in events if kind == "Started"]
        assert len(ready) == 5  # four matrices, and the biases together
        assert started == ready
        assert events.index(("Started", started[0])) < events.index(("Ready", ready[-1]))
