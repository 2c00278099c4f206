"""The same recipes over real processes: bit for bit what the in-process link gives."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.worlds import processes
from tightwire.algebra.grain import tensor
from tightwire.algebra.recipe import AnyRecipe
from tightwire.algebra.world import groups_of
from tightwire.exchanges.allreduce import allreduce, halving_doubling, multi_ring, ring, tree
from tightwire.exchanges.gather import gather
from tightwire.recipes import dgc, layerwise, local_sgd, one_bit, post_local_sgd, powersgd, sync_sgd
from tightwire.run.join import join
from tightwire.run.together import together
from tightwire.testing.cases import batches, distance, network, part, whole

pytestmark = pytest.mark.processes

RECIPES: dict[str, tuple[AnyRecipe, int]] = {
    "ring": (sync_sgd(ring()), 3),
    "tree": (sync_sgd(tree()), 3),
    "halving-doubling": (sync_sgd(halving_doubling()), 4),
    "multi-ring": (sync_sgd(multi_ring()), 4),
    "local-sgd": (local_sgd(4, exchange=ring()), 3),
    "post-local-sgd": (post_local_sgd(5, first=sync_sgd(ring())), 2),
    "one-bit": (one_bit(), 3),
    "powersgd": (powersgd(exchange=ring()), 3),
    "dgc": (dgc(0.05, momentum=0.9), 3),
    "dgc in several messages": (dgc(0.05).but(grain=tensor(), exchange=gather("as_encoded")), 3),  # type: ignore[union-attr]
    "dgc in tiers": (dgc(0.05, momentum=0.9, hosts="tiers", by=groups_of(2)), 4),
    "layerwise": (layerwise(2), 2),
}


def train_one(name: str, recipe: AnyRecipe | None = None, steps: int = 20) -> tuple[dict[str, Tensor], int, int]:
    model = network("mlp")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with join(recipe or RECIPES[name][0], model, optimizer) as wire:
        mine = whole if wire.pipeline is not None else part(wire.rank, wire.size)
        for x, y in batches("mlp", steps):
            wire.batch(mine(x), mine(y), F.mse_loss)
            wire.step()
        bytes_ = (wire.ledger.tx_bytes, wire.ledger.rx_bytes)
    return {n: w.detach() for n, w in model.named_parameters()}, *bytes_


@pytest.mark.parametrize("name", RECIPES)
def test_executor_equals_loop_bit_for_bit(name: str) -> None:
    workers = RECIPES[name][1]
    for ours, theirs in zip(
        together(workers, lambda rank: train_one(name)), processes(workers, train_one, name), strict=True
    ):
        assert distance(ours[0], theirs[0]) == 0.0
        assert ours[1:] == theirs[1:], "the same bytes must be counted on both links"


def train_native(steps: int) -> tuple[dict[str, Tensor], int, int]:
    return train_one("native", sync_sgd(allreduce()), steps)


def test_native_collective_within_rounding() -> None:
    ours = together(3, lambda rank: train_one("ring"))
    native = processes(3, train_native, 20)
    for one, two in zip(ours, native, strict=True):
        assert distance(one[0], two[0]) < 1e-5
        assert one[1:] == two[1:], "a native all-reduce is modelled as the ring it is"


def ledger_rows() -> list[str]:
    model = nn.Linear(3, 3)
    with join(sync_sgd(), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
        wire.batch(torch.ones(2, 3), torch.ones(2, 3), F.mse_loss)
        wire.step()
        return sorted({row["known"] for row in wire.ledger.rows() if row["phase"] == "exchange"})


def test_native_rows_say_modelled() -> None:
    assert processes(2, ledger_rows) == [["modelled"]] * 2
    assert together(2, lambda rank: ledger_rows()) == [["counted"]] * 2
