"""How much training there is, and how much of it has been done: in steps of every worker, or in samples of all.

    steps     over when this worker's clock says so; the same for all
    samples   over when all workers together have had so many samples applied; the fast ones take more steps
    epochs    samples where workers may drift apart without end, else steps: if each took its own steps there, the
              slowest would end alone, and the answer would be its own

Workers in lockstep know how many samples all have had without asking, and stop together. Those that run apart add to a
number they share, without waiting for anybody, so a run may end a few batches late. Dropped contributions do not count.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from tightwire.algebra.recipe import changes_at
from tightwire.engines.config import RunConfig
from tightwire.engines.recipe import drifts, make_recipe, runs_apart
from tightwire.run.data import Share
from tightwire.run.wire import Wire

DEFAULT_EPOCHS = 30.0


class Budget:
    """One worker's view of what is left to do."""

    def __init__(self, config: RunConfig, wire: Wire, share: Share[Any]) -> None:
        self._wire = wire
        self._share = share
        recipe = make_recipe(config)
        self._apart = runs_apart(recipe)
        self._drifts = drifts(recipe)
        self._total = config.samples
        each, epochs = config.batch * wire.size, config.epochs or DEFAULT_EPOCHS
        if self._total is None and config.steps is None and self._drifts and not changes_at(recipe):
            self._total = ceil(epochs * share.samples)
        self.steps = config.steps or ceil(epochs * len(share))
        if config.samples is not None:
            self.steps = ceil(config.samples / each)  # about, if workers run apart
        self._save_every, self._save_samples = config.save_every, config.save_every * each
        self.samples = 0
        self._saved = 0

    def begin(self) -> None:
        """Look at what was done before, in a run that goes on."""
        self.look()
        self._saved = self.samples

    def look(self) -> None:
        """See what all have done by now."""
        self._look(0)

    def took(self, samples: int) -> None:
        """A step is done, with so many samples of this worker."""
        self._look(samples if self._wire.applied else 0)

    def _look(self, mine: int) -> None:
        counted = self._wire.count("samples", mine) if self._apart else 0
        self.samples = self._share.seen if self._wire.lockstep or not self._apart else counted

    @property
    def passed(self) -> float:
        """From 0 to 1."""
        return min(1.0, self._wire.clock / self.steps if self._total is None else self.samples / self._total)

    def is_over(self) -> bool:
        """Whether this worker is done."""
        return self._wire.clock >= self.steps if self._total is None else self.samples >= self._total

    @property
    def save_due(self) -> bool:
        """Whether a checkpoint is due after this step.

        Workers that drift apart save after so many samples of all: at a step of their own the fast would wait for the
        slow, and go on from a centre that is long past.
        """
        if not self._drifts or self._wire.lockstep:
            return self._wire.clock % self._save_every == 0
        return self.samples // self._save_samples > self._saved // self._save_samples

    def saved(self) -> None:
        """A checkpoint was written."""
        self._saved = self.samples
