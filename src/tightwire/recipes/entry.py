"""What the catalogue knows of a recipe: its paper, when to use it, and what it equals in degenerate cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tightwire.algebra.recipe import AnyRecipe


@dataclass(frozen=True)
class Paper:
    """Where a recipe comes from."""

    authors: str
    title: str
    where: str


@dataclass(frozen=True)
class Case:
    """A small training run on a fixed problem: one side of a degenerate-case law.

    ``recipe=None`` is a plain loop in one process. The global batch is the same for any number of workers. ``rate`` and
    ``loss`` are factors on the learning rate and the loss. ``problem`` chooses the network: ``mlp``, or ``narrow`` with
    one input to each unit.
    """

    recipe: AnyRecipe | None = None
    workers: int = 1
    momentum: float = 0.0
    rate: float = 1.0
    loss: float = 1.0
    steps: int = 25
    problem: Literal["mlp", "narrow"] = "mlp"


@dataclass(frozen=True)
class Equals:
    """A degenerate-case law: two cases end with the same weights, to within ``within`` (0: bit for bit)."""

    says: str
    left: Case
    right: Case
    within: float = 0.0


@dataclass(frozen=True)
class Start:
    """The optimizer that a run starts with unless told otherwise. DGC's momentum, say, is in its memory.

    ``rise`` is the share of the run in which the rate rises to ``lr``, 0 for not at all.
    """

    lr: float = 0.05
    momentum: float = 0.9
    rise: float = 0.0


@dataclass(frozen=True)
class RecipeEntry:
    """One line of the catalogue. ``fails_on_sorted`` says of a recipe that it cannot learn from shards of one class."""

    name: str
    make: Callable[..., AnyRecipe]
    paper: Paper
    when: str
    laws: tuple[Equals, ...]
    workers: int = 4
    start: Start = Start()
    fails_on_sorted: bool = False
