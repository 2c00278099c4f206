"""What a plan tries: every recipe of the catalogue, each with the parameters that its paper or its peers have used.

A recipe's settings stand in order from the gentlest to the harshest: a longer period or a lower density always sends
less, so the search takes the first that is as good as the best (`search`), never the last for its own sake.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from math import ceil, isqrt

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.recipe import AnyRecipe
from tightwire.plan.kinds import Kind, kind_of
from tightwire.recipes.catalogue import CATALOGUE, by_name, find

Settings = Mapping[str, object]


@dataclass(frozen=True)
class Candidate:
    """A recipe of the catalogue with some of its parameters.

    >>> str(Candidate("dgc", (("density", 0.01),)))
    'dgc:density=0.01'
    """

    name: str
    params: tuple[tuple[str, object], ...] = ()

    @cached_property
    def recipe(self) -> AnyRecipe:
        """The recipe itself."""
        return by_name(self.name, **dict(self.params))

    @property
    def able(self) -> bool:
        """Whether the recipe takes these parameters."""
        try:
            return self.recipe is not None
        except RecipeError:
            return False

    @cached_property
    def kind(self) -> Kind:
        """What it does to the optimisation."""
        return kind_of(self.recipe)

    @property
    def simplicity(self) -> tuple[int, int]:
        """Its place in the catalogue, which begins with the plainest, and how much of it is not as usual."""
        return list(CATALOGUE).index(self.name), len(self.params)

    def __str__(self) -> str:
        """As `tightwire train --recipe` takes it."""
        return ":".join([self.name, *(f"{key}={value}" for key, value in self.params)])


def candidates(workers: int, *, names: Iterable[str] = (), per_host: int = 1) -> list[Candidate]:
    """Everything to try on so many workers, ``per_host`` of them near each other; all recipes unless some are named.

    A recipe that makes no sense on so few workers (a spare one of two, a grid of three) is not tried.

    >>> [str(one) for one in candidates(8, names=["powersgd", "layerwise"])]
    ['powersgd', 'powersgd:rank=2', 'layerwise:stages=8']
    """
    wanted = [find(name).name for name in names] or list(CATALOGUE)
    return [
        Candidate(name, tuple(settings.items()))
        for name in dict.fromkeys(wanted)
        for settings in _settings(name, workers, per_host)
    ]


def _settings(name: str, workers: int, per_host: int) -> list[Settings]:
    known = signature(CATALOGUE[name].make).parameters
    cut = next((key for key in ("stages", "workers") if key in known), None)
    if cut is not None:
        pieces = workers * ceil(4 / workers)  # at least four, and in whole rounds of all workers
        return [{cut: workers} | ({"microbatches": pieces} if "microbatches" in known else {})]
    if name == "omnivore":
        return [{"groups": groups} for groups in (2, 4, 8) if groups < workers and workers % groups == 0] or [{}]
    if name == "ddl":
        return _grids(workers, per_host)
    if name == "backup-workers":
        return [{"spare": spare} for spare in dict.fromkeys((1, workers // 25)) if 0 < spare <= workers // 4]
    if name in ("softsync", "staleness-aware"):
        return [{"n": n} for n in dict.fromkeys((1, 2, workers)) if n <= workers]
    return _SETTINGS.get(name, [{}])


def _grids(workers: int, per_host: int) -> list[Settings]:
    """Rings of rings: nearly square, and with the workers of a host in the first dimension."""
    if 1 < per_host < workers and workers % per_host == 0:
        return [{"dims": f"{per_host}x{workers // per_host}"}, {}]
    side = next((side for side in range(isqrt(workers), 1, -1) if workers % side == 0), 1)
    return [{}] if side > 1 or workers == 1 else []


def _periods(*taus: int) -> list[Settings]:
    return [{"tau": tau} for tau in taus]


_SETTINGS: dict[str, list[Settings]] = {
    "sync-sgd": [
        {},
        {"grain": 4},
        {"grain": "whole"},
        {"exchange": "ring"},
        {"exchange": "halving-doubling"},
        {"exchange": "tree"},
    ],
    "local-sgd": _periods(2, 5, 10, 50),  # SparkNet: 10 on CIFAR-10, 50 on ImageNet
    "post-local-sgd": _periods(4, 8, 16),
    "model-average": _periods(10, 50),
    "diloco": _periods(20, 100, 500),  # the paper's 500
    "sync-easgd": _periods(1, 4, 16),
    "gossip-pull": _periods(1, 10),
    "gossip-push": _periods(1, 10),
    "downpour": [{"shards": 4}, {"push": 5, "fetch": 5, "shards": 4}],
    "bounded-delay": [{"delay": 2}],
    "ssp": [{"staleness": 3}, {"staleness": 10}],
    "asysg-con": [{"together": 2}],
    "easgd": _periods(4, 10, 64),  # the paper's 1, 4, 16, 64
    "eamsgd": _periods(4, 10, 64),
    "agn": _periods(5, 12),
    "adag": _periods(5, 12),
    "dynsgd": _periods(5, 12),
    "half": [{"kind": "float16"}],
    "fixed-point": [{"whole": 2, "fraction": 14}, {"whole": 2, "fraction": 6}],
    "qsgd": [{"levels": 127}, {"levels": 7}, {"levels": 1}],
    "powersgd": [{}, {"rank": 2}],  # rank 1 is not safe at the rate it would start with
    "top-k": [{"density": 0.01}, {"density": 0.001}],
    "dgc": [
        {"density": 0.01},
        {"density": 0.001},
        {"density": 0.001, "values": "log8", "gaps": "rice"},
    ],
    "sparse-loco": [{"tau": 5}, {"tau": 30, "density": 0.02}],
}
