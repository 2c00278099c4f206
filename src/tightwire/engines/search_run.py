"""One network searched: once, or in rounds with training in between; a latency is aimed at until it is met.

once       build → every method → the best policy of all
rounds     search at 50%, prune, train; at 35%, …      AMC's way to 20% of ResNet-50 (He et al. 2018, section 4.2)
latency    found policy cut and timed, the search aimed anew until it is met (`search_aim`)
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
from tightwire.compress.search.build import Built, Wish, aimed_at, build
from tightwire.compress.search.latency import device_name, load_table
from tightwire.compress.search.policy import Policy, decide, trace
from tightwire.compress.search.problem import Tried
from tightwire.compress.search.rules import at_share
from tightwire.compress.search.settle import settle
from tightwire.engines.search_aim import Met, meet
from tightwire.engines.search_methods import Kept, Searched, Watch, search_by, winner
from tightwire.engines.shrink_file import Coded, architecture_of
from tightwire.engines.shrink_source import Source
from tightwire.files import write_json

_SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of the uniform line in the report


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
        method, tried = winner(built.problem, searched)
        timed: dict[str, float] = {}
        if self.wish.budget is not None and self.wish.budget.kind == "latency":
            met = self._meet(built, searched, kept, budget_ns=self.wish.budget.target(built.whole))
            built, searched, method, tried, timed = met.built, met.searched, met.method, met.tried, met.times
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
                return replace(aimed_at(built, words["target"]), whole=words["whole"])
        words = {"digest": self._digest([]), "target": float(built.problem.clip.target), "whole": built.whole}
        write_json(path, words)
        return built

    def _meet(self, built: Built, searched: dict[str, Searched], kept: Kept, *, budget_ns: float) -> Met:
        def again(aimed: Built, number: int) -> dict[str, Searched]:
            return self._search(aimed, replace(kept, name=f"{kept.name}aim-{number}-"))

        return meet(built, searched, again, budget_ns=budget_ns)

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
        for name, tensor in built.scorer.measure.calibrated(built.scorer.version(tried.levels)).items():
            state[name].copy_(tensor)
        return evaluate(twin, self.sets.test).accuracy

    def _samples(self) -> int:
        return min(self.samples, len(self.sets.valid or ()))

    def _digest(self, rounds: list[dict[str, Any]]) -> str:
        words = [self.source.digest, repr(self.wish), str(self.seed), str(self.samples), json.dumps(rounds)]
        return sha256("\n".join(words).encode()).hexdigest()[:16]


def _method(built: Built, one: Searched) -> dict[str, Any]:
    found = settle(built.problem, one.tried)
    return {
        "error": found.error, "cost": found.cost, "reward": found.reward, "evaluations": one.evaluations,
        "seconds": one.seconds, "layers": [choice.ratio for choice in built.problem.choices(found.levels)],
        "trace": trace(one.tried),
    }  # fmt: skip


def _frontier(built: Built) -> list[list[float]]:
    policies = np.array([at_share(built.problem, share) for share in _SHARES], np.intp)
    return [[one.cost, one.error] for one in built.problem.evaluate(policies)]
