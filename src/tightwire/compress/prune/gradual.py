"""Pruning along a schedule while the network is trained, and retraining what is left.

    passed:   0 ────────── until ────────── 1
              prune, every few steps        masks held

A constraint of `retrain.train`. Zhu, Gupta: To prune, or not to prune. ICLR workshops 2018, arXiv 1710.01878.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from tightwire.compress.errors import CompressError
from tightwire.compress.prune.choose import Share, by_density, by_quality, globally, layer_adaptive
from tightwire.compress.prune.masks import Masks, prunable
from tightwire.compress.prune.patterns import Pattern, fine
from tightwire.compress.prune.schedules import Schedule, cubic

Change: TypeAlias = Callable[[float], float]
_STEP, _DONE = ":step", ":done"  # no parameter has such a name


@dataclass(frozen=True)
class Target:
    """What pruning should reach: a density of every layer, or of the network by one threshold; or thresholds.

    ``by="quality"``: ``share`` is Han's q, the threshold in deviations of the layer; it grows to q along the schedule.
    """

    share: Share
    by: Literal["layer", "network", "adaptive", "quality"] = "layer"
    schedule: Schedule = field(default_factory=cubic)
    pattern: Pattern = field(default_factory=fine)
    patterns: Mapping[str, Pattern] = field(default_factory=dict)  # of single layers, instead

    def masks(self, weights: Mapping[str, Tensor], passed: float) -> dict[str, Tensor]:
        """The masks that are due when the part ``passed`` of the time for pruning is over."""
        if isinstance(self.share, Mapping):
            weights = {name: weight for name, weight in weights.items() if name in self.share}
        if self.by == "quality":
            reached = 1 - self.schedule.density(0.0, passed)
            return by_quality(weights, self._each(lambda q: q * reached), pattern=self.pattern)
        due = self._each(lambda final: self.schedule.density(final, passed))
        if self.by == "layer":
            return {
                name: by_density({name: w}, due, pattern=self.patterns.get(name, self.pattern))[name]
                for name, w in weights.items()
            }
        if isinstance(due, Mapping):
            raise CompressError(f"by={self.by!r} takes one density for the network, not one a layer; use by='layer'")
        choose = globally if self.by == "network" else layer_adaptive
        return choose(weights, due, pattern=self.pattern)

    def _each(self, change: Change) -> Share:
        if isinstance(self.share, Mapping):
            return {name: change(value) for name, value in self.share.items()}
        return change(self.share)


class Gradual:
    """Prunes a model while it is trained; the masks at the end are `masks`."""

    def __init__(self, model: nn.Module, target: Target, *, until: float = 0.6, every: int = 50) -> None:
        if not 0 <= until <= 1:
            raise CompressError(f"until={until}: pruning ends between the beginning (0) and the end (1) of training")
        self._model = model
        self._target = target
        self._until = until
        self._every = every
        self._step = 0
        self._done = False
        self._held = Masks(model, {})
        self._optimizer: torch.optim.Optimizer | None = None

    @property
    def masks(self) -> dict[str, Tensor]:
        """Every mask as it is now."""
        return self._held.masks

    def parameters(self) -> list[nn.Parameter]:
        """All of the model's."""
        return list(self._model.parameters())

    def begin(self, optimizer: torch.optim.Optimizer) -> None:
        """Prune what is due at once."""
        self._optimizer = optimizer
        self._held = Masks(self._model, self._due(0.0))
        self._held.clear_(optimizer)
        self._done = self._until == 0

    def decide(self, passed: float) -> None:
        """Prune more if it is time."""
        self._step += 1
        if not self._done and (passed >= self._until or self._step % self._every == 0):
            self._done = passed >= self._until
            self._held.change_(self._due(passed))
            self._held.clear_(self._optimizer)

    def before_step(self) -> None:
        """Mask the gradients."""
        self._held.mask_gradients_()

    def after_step(self) -> None:
        """What has neither gradient nor momentum has not moved."""

    def state(self) -> dict[str, Tensor]:
        """The masks, and how far pruning is."""
        return {**self._held.masks, _STEP: torch.tensor(self._step), _DONE: torch.tensor(self._done)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Masks as they were; the weights are restored by whoever trains."""
        self._step, self._done = int(state[_STEP]), bool(state[_DONE])
        self._held.change_({name: mask for name, mask in state.items() if name not in (_STEP, _DONE)})

    def _due(self, passed: float) -> dict[str, Tensor]:
        weights: dict[str, Tensor] = dict(prunable(self._model))
        return self._target.masks(weights, 1.0 if passed >= self._until else passed / self._until)
