"""Workers that descend f_k(w) = ½·‖w − target_k‖² by a recipe, on the in-process link, in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from tightwire.algebra.recipe import AnyRecipe
from tightwire.links.loop import Order, in_turn
from tightwire.run.join import join
from tightwire.run.together import spend, together
from tightwire.run.wire import Wire

SHAPE = (4, 3)
Times = Callable[[int, int], float]


@dataclass
class Descent:
    """What one worker saw: its weights after every step, and the answer."""

    weights: list[Tensor] = field(default_factory=list)
    answer: Tensor = field(default_factory=lambda: torch.empty(0))
    staleness: dict[str, Any] | None = None
    tx_bytes: int = 0
    rx_bytes: int = 0
    clocks: list[list[int]] = field(default_factory=list)


def descend(
    recipe: AnyRecipe,
    workers: int,
    *,
    steps: int | Sequence[int] = 6,
    lr: float = 0.1,
    pull: float = 1.0,
    targets: Sequence[float] | None = None,
    order: Order = in_turn,
    times: Times = lambda rank, step: 0.0,
    start: Callable[[int], Tensor] | None = None,
    watch: Callable[[Wire, int], None] | None = None,
    **optimizer: Any,
) -> list[Descent]:
    """Every worker's descent; gradients are ``pull``·(w − target)."""

    def one(rank: int) -> Descent:
        torch.manual_seed(0)
        model = nn.Linear(SHAPE[1], SHAPE[0], bias=False)
        seen, goal = Descent(), (targets or range(1, workers + 1))[rank]
        with join(recipe, model, torch.optim.SGD(model.parameters(), lr=lr, **optimizer)) as wire:
            if start is not None:
                with torch.no_grad():
                    model.weight.copy_(start(rank))
            for step in range(steps if isinstance(steps, int) else steps[rank]):
                (0.5 * pull * (model.weight - goal).square().sum()).backward()
                spend(times(rank, step))
                wire.step()
                seen.weights.append(model.weight.detach().clone())
                if watch is not None:
                    watch(wire, step)
            seen.tx_bytes, seen.rx_bytes = wire.ledger.tx_bytes, wire.ledger.rx_bytes
            wire.agree(False)
            seen.staleness = wire.staleness()
        seen.answer = model.weight.detach().clone()
        return seen

    return together(workers, one, order=order)


def start() -> Tensor:
    """The weights that every descent starts from."""
    torch.manual_seed(0)
    return nn.Linear(SHAPE[1], SHAPE[0], bias=False).weight.detach().clone()
