"""Deep Compression from end to end: a trained network in, shared weights and a report out.

    reference ── prune ── share ── polish ──→ file
                   │        │        └ centroids trained, assignments held; rounded to halves
                   │        └ clustered; to a ratio, or within a loss, if that is the goal
                   └ pruned along a schedule while it is trained; in rungs, if a loss is the goal

Han, Mao, Dally: Deep Compression. ICLR 2016, arXiv 1510.00149. Each stage is kept in a work folder when it is done, and
is not done twice; a training is kept there every half minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TypeAlias

from torch import nn

from tightwire.compress.equalise import equalise_
from tightwire.compress.errors import CompressError
from tightwire.compress.goals import density_for, share_all, share_to_ratio, share_to_room, share_within
from tightwire.compress.halves import round_rest_, round_shared
from tightwire.compress.plan import Plan
from tightwire.compress.prune.gradual import Gradual
from tightwire.compress.prune.masks import Masks, prunable
from tightwire.compress.retrain import Examples, evaluate, train
from tightwire.compress.share.centroids import Centroids
from tightwire.compress.shared_weights import SharedWeights
from tightwire.compress.size import Estimate, Sizer, dense_nbytes, layer_figures
from tightwire.compress.work import Work

Shared: TypeAlias = dict[str, SharedWeights]
_FIRST_DENSITY, _RUNG, _RUNGS = 0.2, 0.7, 10  # for a loss: 0.2, 0.14, 0.098, … of the weights
_ATTEMPTS, _MARGIN_NBYTES = 5, 8  # to stay within a budget of bytes
_SLACK = (1.05, 1.01, 1.0)  # of the loss before sharing; what polishing makes good again


@dataclass(frozen=True, eq=False)
class Sets:
    """What to train on, what to decide by (for a loss that is borne), and what only the report sees."""

    train: Examples
    valid: Examples | None
    test: Examples


class Told(Protocol):
    """Who is told how far a stage is."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """``done`` of ``total`` steps."""


@dataclass(frozen=True, eq=False)
class Shrunk:
    """What came out: the network with its weights shared, the shared weights, and what each stage did."""

    model: nn.Module
    shared: Shared
    stages: list[dict[str, Any]]


@dataclass(eq=False)
class Pipeline:
    """Shrinks one network, in place. Without ``sets`` nothing is trained, and only what a plan fixes can be done."""

    model: nn.Module
    plan: Plan
    sets: Sets | None = None
    work: Work = field(default_factory=lambda: Work(None))
    sizer: Sizer = field(default_factory=Estimate)
    told: Told = field(default=lambda stage, done, total: None)
    teacher: nn.Module | None = None

    def __post_init__(self) -> None:
        """Keep the network that was given, or that it was cut from: it teaches the smaller one."""
        self._teacher = deepcopy(self.teacher or self.model).eval()
        self._stages: list[dict[str, Any]] = []
        if self.plan.max_loss is not None and (self.sets is None or self.sets.valid is None):
            raise CompressError("a loss can only be held with data to decide by; give --data, or --bits instead")

    def run(self, source: str = "") -> Shrunk:
        """All stages; ``source`` names the network, so that another one does not go on with this one's work."""
        self.work.begin(self.plan.as_json(), self.plan.digest(source))
        self._stage("0-reference", dict, of=self.teacher)
        if self.teacher is not None:
            self._stage("0-cut", dict)
        if self.plan.max_loss is not None:
            self._prune_in_rungs(self.plan.max_loss)
            shared = self._share_within(self.plan.max_loss)
        else:
            self._stage("1-prune", self._prune)
            shared = self._share_within_bytes() if self.plan.most_nbytes is not None else self._share_once()
        return Shrunk(self.model, shared, self._stages)

    def _share_once(self) -> Shared:
        shared = self._stage("2-share", self._share)
        return self._stage("3-polish", lambda: self._polish(shared))

    def _share_within_bytes(self) -> Shared:
        """Share and polish; where polishing made the file too large, again with that much less room."""
        assert self.plan.most_nbytes is not None
        begin, room = deepcopy(self.model.state_dict()), float(self.plan.most_nbytes)
        for attempt in range(_ATTEMPTS):
            self.model.load_state_dict(begin)
            shared = self._stage(f"2-share-{attempt}", lambda r=room: self._share(r))  # type: ignore[misc]
            polish = f"3-polish-{attempt}"
            shared = self._stage(polish, lambda s=shared, n=polish: self._polish(s, n))  # type: ignore[misc]
            excess = self.sizer.whole(self.model, shared) - self.plan.most_nbytes
            if excess <= 0:
                return shared
            room -= excess + _MARGIN_NBYTES
        raise CompressError(
            f"the file stays {excess} bytes above the {self.plan.most_nbytes} it may take; prune more, or allow more"
        )

    def _stage(self, name: str, do: Callable[[], Shared], of: nn.Module | None = None) -> Shared:
        """Do a stage, or take what it did before; its figures are the model's, or those ``of`` another."""
        found = self.work.load(name, self.model)
        if found is not None:
            self._stages.append(found[0])
            return found[1]
        begin = time.perf_counter()
        shared = do()
        figures = {"stage": name, "seconds": time.perf_counter() - begin, **self._figures(shared, of or self.model)}
        self.work.save(name, self.model, figures, shared)
        self._stages.append(figures)
        return shared

    def _figures(self, shared: Shared, model: nn.Module) -> dict[str, Any]:
        """Accuracy, size and layers as they are now."""
        found: dict[str, Any] = {}
        if self.sets is not None:
            found["test"] = asdict(evaluate(model, self.sets.test))
            if self.sets.valid is not None:
                found["valid"] = asdict(evaluate(model, self.sets.valid))
        weights = prunable(model)
        kept = sum(int((weight != 0).sum()) for weight in weights.values())
        found["density"] = kept / max(1, sum(weight.numel() for weight in weights.values()))
        if shared:
            nbytes = self.sizer.whole(model, shared)
            found |= {"nbytes": nbytes, "ratio": dense_nbytes(self._teacher) / nbytes}
            found["layers"] = layer_figures(shared, self.sizer)
        return found

    def _prune(self, density: float | None = None, stage: str = "1-prune") -> Shared:
        density = self._density() if density is None else density
        if density is None and not self.plan.layers and self.plan.quality is None:
            return {}
        target = self.plan.target(density or 1.0)
        if self.sets is None:
            Masks(self.model, target.masks(dict(prunable(self.model)), 1.0)).clear_()
            return {}
        held = Gradual(self.model, target, until=self.plan.until)
        train(self.model, self.sets.train, self.plan.retrain, constraint=held, teacher=self._teacher,
              told=lambda done, total: self.told(stage, done, total), keep=self.work.unfinished(stage))  # fmt: skip
        return {}

    def _density(self) -> float | None:
        found = self.plan.density is not None or self.plan.quality is not None
        if not found and self.plan.ratio is not None and self.sets is not None:
            nbytes = 2 if self.plan.numbers == "half" else 4
            return density_for(self.plan.ratio, self.model, number_nbytes=nbytes)
        return self.plan.density

    def _share(self, room: float | None = None) -> Shared:
        if self.sets is None:
            equalise_(self.model)  # nothing is trained any more, so norms may take the filters' scales
        weights: Mapping[str, Any] = prunable(self.model)
        if room is not None:
            shared = share_to_room(self.model, weights, self.plan, self.sizer, room=room)
        elif self.plan.ratio is not None:
            shared = share_to_ratio(self.model, weights, self.plan, self.sizer)
        else:
            shared = share_all(weights, self.plan)
        Centroids(self.model, shared)
        return shared

    def _polish(self, shared: Shared, stage: str = "3-polish") -> Shared:
        centroids = Centroids(self.model, shared)
        if self.sets is not None and self.plan.polish.epochs > 0:
            train(self.model, self.sets.train, self.plan.polish, constraint=centroids, teacher=self._teacher,
                  told=lambda done, total: self.told(stage, done, total), keep=self.work.unfinished(stage))  # fmt: skip
        if self.plan.numbers == "float":
            return centroids.shared()
        round_rest_(self.model, shared)
        rounded = {name: round_shared(tensor) for name, tensor in centroids.shared().items()}
        Centroids(self.model, rounded)
        return rounded

    def _holds(self, max_loss: float) -> bool:
        """Whether the last stage's accuracy is within the loss that is borne, on the samples to decide by."""
        now, before = (self._stages[at]["valid"]["accuracy"] for at in (-1, 0))
        return bool(100 * (before - now) <= max_loss + 1e-9)

    def _prune_in_rungs(self, max_loss: float) -> None:
        """Prune and retrain, each time to a smaller density, while the accuracy holds; take the last that did."""
        density = self.plan.density or _FIRST_DENSITY
        for rung in range(_RUNGS):
            name = f"1-prune-{rung}"
            before = deepcopy(self.model.state_dict())
            self._stage(name, lambda d=density, n=name: self._prune(d, n))  # type: ignore[misc]
            if not self._holds(max_loss):
                self.model.load_state_dict(before)
                self._stages[-1]["taken_back"] = True
                return
            density *= _RUNG

    def _share_within(self, max_loss: float) -> Shared:
        """Share with as much loss as polishing may make good again; with less, if it did not."""
        weights, budget = prunable(self.model), self._valid_loss(self.model)
        begin = deepcopy(self.model.state_dict())
        shared: Shared = {}
        for attempt, slack in enumerate(_SLACK):
            self.model.load_state_dict(begin)
            shared = self._stage(f"2-share-{attempt}", lambda s=slack: self._within(weights, s * budget))  # type: ignore[misc]
            polish = f"3-polish-{attempt}"
            shared = self._stage(polish, lambda s=shared, n=polish: self._polish(s, n))  # type: ignore[misc]
            if self._holds(max_loss):
                break
        return shared

    def _within(self, weights: Mapping[str, nn.Parameter], budget: float) -> Shared:
        shared = share_within(self.model, weights, sizer=self.sizer, loss=self._valid_loss, budget=budget)
        Centroids(self.model, shared)
        return shared

    def _valid_loss(self, model: nn.Module) -> float:
        assert self.sets is not None and self.sets.valid is not None
        return evaluate(model, self.sets.valid).loss
