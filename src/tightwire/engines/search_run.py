"""One network searched: once, or in rounds with training in between; a latency is aimed at until it is met.

once       build → every method → the best policy of all
rounds     search at 50%, prune, train; at 35%, …      AMC's way to 20% of ResNet-50 (He et al. 2018, section 4.2)
latency    found policy cut and timed: off by more than it may, the aim is corrected and the search done again
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tightwire.compress.pipeline import Sets
from tightwire.compress.prune.gradual import Gradual, Target
from tightwire.compress.prune.schedules import one_shot
from tightwire.compress.retrain import Examples, Training, evaluate, train
from tightwire.compress.search.budget import Budget
from tightwire.compress.search.build import Built, Wish, build
from tightwire.compress.search.channels import Channels
from tightwire.compress.search.clip import clip
from tightwire.compress.search.latency import aim, device_name, load_table
from tightwire.compress.search.policy import Policy, decide, trace
from tightwire.compress.search.problem import Tried, best
from tightwire.compress.search.rivals import at_share
from tightwire.compress.search.timing import time_ns
from tightwire.engines.search_methods import Kept, Searched, Watch, search_by
from tightwire.engines.shrink_file import Coded, architecture_of
from tightwire.engines.shrink_source import Source

_SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of the uniform line in the report
_AIMS = 3  # corrections of a latency
_NEAR, _AIMED = 0.92, 0.96  # the part of its budget that is used well enough, and that is aimed at


@dataclass(frozen=True, eq=False)
class Found:
    """A policy, uniform ones from small to whole (cost, error), and test accuracies that nothing was decided by."""

    policy: Policy
    frontier: list[list[float]]
    before: float
    pruned: float


@dataclass(frozen=True, eq=False)
class SearchRun:
    """Everything that a search of one network needs."""

    source: Source
    sets: Sets
    wish: Wish
    methods: tuple[str, ...]
    episodes: int
    seed: int
    samples: int
    folder: Path
    table: Path | None
    watch: Watch

    def in_rounds(self, shares: tuple[float, ...], *, epochs: float) -> Found:
        """A search for each share of the parameters, the network pruned and trained before the next."""
        model, rounds = deepcopy(self.source.model), list[dict[str, Any]]()
        for number, share in enumerate(shares):
            run = replace(self, wish=replace(self.wish, budget=Budget("params", share=share)))
            found = run.once(model, name=f"round-{number}-", rounds=rounds)
            policy = found.policy
            rounds.append({"density": share, "error": policy.error, "layers": [d.ratio for d in policy.layers]})
            if number + 1 < len(shares):
                target = Target({d.layer: d.ratio for d in policy.layers}, "layer", one_shot())
                settings = Training(epochs=epochs, seed=self.seed + number, soft=0.5)
                held = Gradual(model, target, until=0.0)
                train(model, self.sets.train, settings, constraint=held, teacher=self.source.model)
        return replace(found, policy=replace(policy, settings={**policy.settings, "rounds": rounds}))

    def once(self, model: nn.Module, *, name: str = "", rounds: list[dict[str, Any]] | None = None) -> Found:
        """Search by every method; the best policy of all is taken."""
        built = self._build(model)
        kept = Kept(self.folder, name, self._digest(rounds or []))
        searched = self._search(built, kept)
        timed: dict[str, float] = {}
        if self.wish.budget is not None and self.wish.budget.kind == "latency":
            built, searched, timed = self._aim(built, searched, kept)
        method, tried = _winner(searched)
        policy = self._policy(built, method, tried, searched, timed)
        return Found(
            policy, _frontier(built), evaluate(model, self.sets.test).accuracy, self._test(model, built, tried)
        )

    def _search(self, built: Built, kept: Kept) -> dict[str, Searched]:
        return {
            method: search_by(method, built.problem, self.episodes, kept=kept, seed=self.seed, watch=self.watch)
            for method in self.methods
        }

    def _build(self, model: nn.Module) -> Built:
        held = self.sets.valid
        assert held is not None
        some = Examples(held.x_N[: self.samples], held.y_N[: self.samples])
        table, path = None, self.table or self.folder / "latency.json"
        if self.wish.budget is not None and self.wish.budget.kind == "latency":
            table = load_table(path, device=device_name(some.y_N.device.type), batch=self.wish.batch)
        sizer = Coded(architecture_of(self.source))
        made = build(model, self.sets.train, some, self.wish, sizer=sizer, table=table)
        if table is None:
            return made
        table.save(path)
        return self._same_aim(made)

    def _same_aim(self, built: Built) -> Built:
        """A search that goes on aims where it aimed before: timed again, networks take a little more or less."""
        path = self.folder / "aim.json"
        if path.exists():
            words = json.loads(path.read_text(encoding="utf-8"))
            if words["digest"] == self._digest([]):
                problem = built.problem
                aimed = clip(problem.units, problem.cost, words["target"])
                return replace(built, problem=replace(problem, clip=aimed), whole=words["whole"])
        self.folder.mkdir(parents=True, exist_ok=True)
        words = {"digest": self._digest([]), "target": float(built.problem.clip.target), "whole": built.whole}
        path.write_text(json.dumps(words), encoding="utf-8")
        return built

    def _aim(
        self, built: Built, searched: dict[str, Searched], kept: Kept
    ) -> tuple[Built, dict[str, Searched], dict[str, float]]:
        """Time what was found; while it is above the budget, or far below, correct the aim and search again.

        What was timed before tells where to aim. Of all attempts the one nearest below the budget is taken.
        """
        scorer = built.scorer
        assert self.wish.budget is not None and isinstance(scorer, Channels)
        budget_ns, problem = self.wish.budget.target(built.whole), built.problem
        x = built.example.expand(self.wish.batch, *built.example.shape[1:]).contiguous()
        known = [(problem.cost.most, built.whole)]  # sums of layers, and what whole networks took
        attempts = []
        while True:
            _, tried = _winner(searched)
            measured_ns = time_ns(scorer.cut(tried.levels, built.example), x)
            known.append((tried.cost, measured_ns))
            attempts.append((measured_ns, built, searched))
            everything = tried.cost >= problem.cost.most
            if len(attempts) > _AIMS or everything or _NEAR * budget_ns <= measured_ns <= budget_ns:
                break
            target = max(np.floor(aim(_AIMED * budget_ns, *zip(*known, strict=True))), problem.cost.least)
            problem = replace(problem, clip=clip(problem.units, problem.cost, target))
            built = replace(built, problem=problem)
            searched = self._search(built, replace(kept, name=f"{kept.name}aim-{len(attempts)}-"))
        measured_ns, built, searched = _nearest(attempts, budget_ns)
        return built, searched, {"budget_ns": budget_ns, "measured_ns": measured_ns, "whole_ns": built.whole}

    def _policy(
        self, built: Built, method: str, tried: Tried, searched: dict[str, Searched], timed: dict[str, float]
    ) -> Policy:
        problem, words = built.problem, {**asdict(self.wish), "budget": str(self.wish.budget or "")}
        return Policy(
            model=self.source.name, digest=self.source.digest,
            prune="channels" if self.wish.prune == "channels" else "weights", budget=words["budget"],
            layers=decide(problem.units, problem.choices(tried.levels)), error=tried.error, cost=tried.cost,
            target=problem.clip.target, whole=problem.cost.most if timed else built.whole, seed=self.seed,
            method=method,
            settings={"wish": words, "episodes": self.episodes, "samples": self._samples(), "latency": timed},
            methods={name: _method(built, one) for name, one in searched.items()},
        )  # fmt: skip

    @torch.no_grad()
    def _test(self, model: nn.Module, built: Built, tried: Tried) -> float:
        """Test accuracy of the pruned network, not trained on."""
        twin = deepcopy(model)
        state = twin.state_dict()
        for name, tensor in built.scorer.version(tried.levels).items():
            state[name].copy_(tensor)
        return evaluate(twin, self.sets.test).accuracy

    def _samples(self) -> int:
        return min(self.samples, len(self.sets.valid or ()))

    def _digest(self, rounds: list[dict[str, Any]]) -> str:
        words = [self.source.digest, repr(self.wish), str(self.seed), str(self.samples), json.dumps(rounds)]
        return sha256("\n".join(words).encode()).hexdigest()[:16]


def _nearest(
    attempts: list[tuple[float, Built, dict[str, Searched]]], budget_ns: float
) -> tuple[float, Built, dict[str, Searched]]:
    """The slowest within the budget; where none is, the fastest."""
    within = [one for one in attempts if one[0] <= budget_ns]
    return max(within, key=lambda one: one[0]) if within else min(attempts, key=lambda one: one[0])


def _winner(searched: dict[str, Searched]) -> tuple[str, Tried]:
    found = {method: best(one.tried) for method, one in searched.items()}
    method = max(found, key=lambda name: (found[name].reward, -found[name].cost))
    return method, found[method]


def _method(built: Built, one: Searched) -> dict[str, Any]:
    found = best(one.tried)
    return {
        "error": found.error, "cost": found.cost, "reward": found.reward, "evaluations": one.evaluations,
        "seconds": one.seconds, "layers": [choice.ratio for choice in built.problem.choices(found.levels)],
        "trace": trace(one.tried),
    }  # fmt: skip


def _frontier(built: Built) -> list[list[float]]:
    policies = np.array([at_share(built.problem, share) for share in _SHARES], np.intp)
    return [[one.cost, one.error] for one in built.problem.evaluate(policies)]
