"""Rank every recipe, with its parameters, for a model, a cluster and an objective.

    value = seconds of an epoch | bytes that all workers send in an epoch | what an epoch costs

Each recipe stands in the ranking once, with its gentlest setting that is as good as its best. Predictions err by some
percent (`ERROR`), so what differs by less is a tie, and of a tie the plainest method is put first: the honest answer is
often "all-reduce". Methods that change the optimisation are ranked like all others and marked (`kinds`).

Agarwal, Wang, Venkataraman, Papailiopoulos: On the Utility of Gradient Compression in Distributed Training Systems.
MLSys 2022, arXiv 2103.00543: in 6 of more than 200 set-ups did compression beat well-tuned synchronous SGD.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tightwire.algebra.errors import RecipeError
from tightwire.plan.candidates import Candidate, candidates
from tightwire.plan.cluster import Cluster
from tightwire.plan.cost import Prediction, predict
from tightwire.plan.errors import PlanError
from tightwire.plan.kinds import KINDS, keeps
from tightwire.plan.profile import Profile
from tightwire.recipes.catalogue import CATALOGUE, find

Objective = Literal["time", "bytes", "cost"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
ERROR = 0.10
"""What differs by less than this is a tie: about what predicted and measured step times differ by."""


@dataclass(frozen=True)
class Aim:
    """What is to be small, over how many samples."""

    objective: Objective = "time"
    samples: int = 1_000_000

    def value(self, found: Prediction, cluster: Cluster) -> float:
        """Seconds, bytes of all workers, or the price (hours of one worker, where no price is known) of an epoch."""
        seconds = self.samples / found.samples_per_s
        if self.objective == "time":
            return seconds
        if self.objective == "bytes":
            return found.workers * found.tx_nbytes * self.samples / found.batch
        return seconds / 3600 * found.workers * (cluster.price_per_hour or 1.0)


TIME = Aim()


@dataclass(frozen=True)
class Row:
    """One line of a ranking; a smaller ``value`` is better."""

    candidate: Candidate
    prediction: Prediction
    value: float

    @property
    def plainness(self) -> tuple[int, int, int]:
        """The smaller, the plainer: first what it does to the optimisation, then how usual it is."""
        return KINDS.index(self.candidate.kind), *self.candidate.simplicity


@dataclass(frozen=True)
class Ranking:
    """All recipes on so many workers, the best first; ``refused`` says why the others cannot run there.

    ``tried`` are all settings that can run; a recipe's own stand from the gentlest to the harshest.
    """

    aim: Aim
    workers: int
    rows: tuple[Row, ...]
    refused: tuple[tuple[str, str], ...] = ()
    tried: tuple[Candidate, ...] = ()

    @property
    def first(self) -> Row:
        """The plainest of those that nothing beats."""
        return self.rows[0]

    @property
    def advised(self) -> Row:
        """The first that takes the steps of synchronous SGD: what to use without asking whether it learns as well."""
        return plainest_best([row for row in self.rows if keeps(row.candidate.kind)] or self.rows)

    def row(self, name: str) -> Row | None:
        """The line of a recipe, if it can run."""
        return next((row for row in self.rows if row.candidate.name == name), None)


def rank(
    profile: Profile,
    cluster: Cluster,
    workers: int,
    *,
    aim: Aim = TIME,
    names: Iterable[str] = (),
) -> Ranking:
    """Predict everything and put it in order."""
    if workers < 1:
        raise PlanError(f"workers={workers}: a plan needs at least 1; give --workers 1,2,4")
    per_host = cluster.hosts(workers).count(cluster.hosts(workers)[0])
    tried: dict[str, list[Row]] = {}
    wanted = [find(name).name for name in names] or list(CATALOGUE)
    every = candidates(workers, names=wanted, per_host=per_host)
    refused = {name: f"{name} has no form for {workers} workers" for name in set(wanted) - {one.name for one in every}}
    for candidate in every:
        try:
            tried.setdefault(candidate.name, []).append(evaluate(candidate, profile, cluster, workers, aim=aim))
        except (PlanError, RecipeError) as error:
            refused.setdefault(candidate.name, str(error))  # of its gentlest setting
    rows = sorted((gentlest(found) for found in tried.values() if found), key=lambda row: row.value)
    if not rows:
        raise PlanError(f"no recipe can run on {workers} workers: {next(iter(refused.values()))}")
    first = plainest_best(rows)
    others = [row for row in rows if row is not first]
    able = tuple(row.candidate for found in tried.values() for row in found)
    reasons = tuple((name, refused[name]) for name in wanted if name in refused and not tried.get(name))
    return Ranking(aim, workers, (first, *others), reasons, able)


def evaluate(candidate: Candidate, profile: Profile, cluster: Cluster, workers: int, *, aim: Aim) -> Row:
    """One candidate's line."""
    found = predict(candidate.recipe, profile, cluster, workers)
    return Row(candidate, found, aim.value(found, cluster))


def gentlest(rows: Sequence[Row]) -> Row:
    """Of one recipe's settings, gentlest first: the first that is as good as the best."""
    best = min(row.value for row in rows)
    return next(row for row in rows if row.value <= best * (1 + ERROR))


def plainest_best(rows: Sequence[Row]) -> Row:
    """Of those that nothing beats by more than the error, the plainest. What never exchanges is no way to train."""
    able = [row for row in rows if not CATALOGUE[row.candidate.name].fails_on_sorted] or rows
    best = min(row.value for row in able)
    return min((row for row in able if row.value <= best * (1 + ERROR)), key=lambda row: row.plainness)
