"""What `shrink` is asked to do, as one value that is saved with its work.

density, by, pattern     what pruning reaches, counted how, in which groups
quality                  or: weights below so many deviations of their layer go (Han's q)
centroids, bit_cost      how many values a layer may share, and what a bit of the file weighs against exactness
ratio | max_loss         or: what to reach, and the rest is found; most_nbytes: what the file may not exceed
retrain, polish          how the network is trained while it is pruned, and how its centroids are trained
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Literal

from tightwire.compress.errors import CompressError
from tightwire.compress.prune import patterns
from tightwire.compress.prune.gradual import Target
from tightwire.compress.prune.patterns import Pattern
from tightwire.compress.prune.schedules import Schedule, cubic, in_rounds, one_shot
from tightwire.compress.retrain import Training


@dataclass(frozen=True)
class Plan:
    """One way to shrink a network. ``density`` None leaves all weights in, or is found where a goal is given."""

    density: float | None = None
    by: Literal["layer", "network", "adaptive"] = "adaptive"
    layers: Mapping[str, float] = field(default_factory=dict)  # densities of single layers, instead
    quality: float | None = None  # thresholds in deviations of each layer, instead
    pattern: str = "fine"
    layer_patterns: Mapping[str, str] = field(default_factory=dict)
    schedule: str = "cubic"
    until: float = 0.5
    centroids: int = 16
    layer_centroids: Mapping[str, int] = field(default_factory=dict)
    bit_cost: float = 0.01
    numbers: Literal["half", "float"] = "half"  # centroids, biases and norms in the file
    ratio: float | None = None
    max_loss: float | None = None
    most_nbytes: int | None = None  # the file may not be larger
    retrain: Training = field(default_factory=lambda: Training(epochs=30, lr=2e-3))
    polish: Training = field(default_factory=lambda: Training(epochs=5, lr=3e-4))

    def __post_init__(self) -> None:
        """Refuse what cannot be done."""
        if self.density is not None and not 0 < self.density <= 1:
            raise CompressError(f"density={self.density}: keep more than nothing and at most everything (1)")
        if self.quality is not None and self.quality <= 0:
            raise CompressError(f"quality={self.quality}: a threshold lies above 0 deviations of a layer's weights")
        if self.quality is not None and (self.density is not None or self.layers or self.max_loss is not None):
            raise CompressError("thresholds by quality decide the density; leave out --prune and --max-loss")
        if self.ratio is not None and self.max_loss is not None:
            raise CompressError("a target ratio and a loss that is borne are two goals; give one of them")
        if self.ratio is not None and self.ratio <= 1:
            raise CompressError(f"target ratio {self.ratio}: a smaller file takes more than 1")
        if self.max_loss is not None and self.max_loss < 0:
            raise CompressError(f"max loss {self.max_loss}: give the points of accuracy that may be lost, from 0.0 on")
        if self.most_nbytes is not None and (self.ratio is not None or self.max_loss is not None):
            raise CompressError("a budget of bytes stands alone; leave out the target ratio or the loss that is borne")
        if self.bit_cost < 0:
            raise CompressError(f"bit_cost={self.bit_cost}: a bit costs at least nothing")
        for pattern in (self.pattern, *self.layer_patterns.values()):
            parse_pattern(pattern)
        parse_schedule(self.schedule)

    def target(self, density: float) -> Target:
        """What pruning to this density means."""
        schedule, pattern = parse_schedule(self.schedule), parse_pattern(self.pattern)
        if self.layers:
            own = {name: parse_pattern(text) for name, text in self.layer_patterns.items()}
            return Target(dict(self.layers), "layer", schedule, pattern, own)
        if self.quality is not None:
            return Target(self.quality, "quality", schedule, pattern)
        return Target(density, self.by, schedule, pattern)

    def k(self, layer: str) -> int:
        """How many centroids a layer may have."""
        return self.layer_centroids.get(layer, self.centroids)

    def as_json(self) -> str:
        """The plan in words that `digest` and people read."""
        return json.dumps(asdict(self), indent=1, sort_keys=True)

    def digest(self, *also: str) -> str:
        """A name for this plan: work that was begun under another one is not gone on with."""
        return sha256("\n".join([self.as_json(), *also]).encode()).hexdigest()[:16]


def parse_pattern(text: str) -> Pattern:
    """fine, vector:4, kernel, filter, block:4x4, 2:4.

    >>> parse_pattern("block:4x8")
    Blocks(sides=(4, 8), whole_from=None)
    """
    name, _, rest = text.partition(":")
    try:
        match name:
            case "fine" | "kernel" | "filter" if not rest:
                return {"fine": patterns.fine, "kernel": patterns.kernels, "filter": patterns.filters}[name]()
            case "vector":
                return patterns.vectors(int(rest or 4))
            case "block":
                return patterns.block(*(int(side) for side in rest.split("x")))
        if name.isdigit() and rest.isdigit():
            return patterns.n_of_m(int(name), int(rest))
    except ValueError as error:
        if isinstance(error, CompressError):
            raise
    raise CompressError(f"pattern {text!r} is not known; write fine, vector:4, kernel, filter, block:4x4 or 2:4")


def parse_schedule(text: str) -> Schedule:
    """cubic, one-shot, rounds:5.

    >>> parse_schedule("rounds:2").density(0.25, 0.0)
    0.5
    """
    name, _, rest = text.partition(":")
    if text == "cubic":
        return cubic()
    if text == "one-shot":
        return one_shot()
    if name == "rounds" and rest.isdigit():
        return in_rounds(int(rest))
    raise CompressError(f"schedule {text!r} is not known; write cubic, one-shot or rounds:5")
