"""The learning rate of a run: it may rise first, then it falls, or stays.

    factor(p) = (1/10 + 9/10 · min(1, p/rise)) · ½(1 + cos πp)        p: the share of the run that is done

A function of what has been done, so a resumed run needs no scheduler's memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi
from typing import Literal

from tightwire.engines.config import RunConfig
from tightwire.models.names import MODELS
from tightwire.recipes.catalogue import CATALOGUE
from tightwire.recipes.entry import Start

FIRST = 0.1  # what a rising rate begins with
ADAMW_LR = 1e-3


@dataclass(frozen=True)
class Rate:
    """A factor on the learning rate. ``rise`` is the share of the run in which it rises, 0 for not at all.

    >>> [round(Rate("cosine", rise=0.5).factor(passed), 2) for passed in (0, 0.25, 0.5, 1)]
    [0.1, 0.47, 0.5, 0.0]
    """

    fall: Literal["cosine", "constant"] = "cosine"
    rise: float = 0.0

    def factor(self, passed: float) -> float:
        """What the rate is multiplied by when that share of the run is done."""
        falling = 0.5 * (1 + cos(pi * passed)) if self.fall == "cosine" else 1.0
        if passed >= self.rise:
            return falling
        return falling * (FIRST + (1 - FIRST) * passed / self.rise)


def start_of(config: RunConfig) -> Start:
    """What the recipe of a run starts with."""
    return CATALOGUE[config.recipe].start if config.recipe in CATALOGUE else Start()


def lr_of(config: RunConfig) -> float:
    """The learning rate that was asked for, or else what the optimizer starts with, as far as the network bears it."""
    if config.lr is not None:
        return config.lr
    if config.optimizer == "adamw":
        return ADAMW_LR
    return start_of(config).lr * (MODELS[config.model].bears if config.model in MODELS else 1.0)


def rate_of(config: RunConfig) -> Rate:
    """How the rate of a run changes; a recipe's own rise belongs to the SGD that it starts with."""
    own = start_of(config).rise if config.optimizer == "sgd" else 0.0
    return Rate(config.rate, own if config.rise is None else config.rise)
