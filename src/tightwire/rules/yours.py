"""The user's own `torch.optim` optimizer, in the one seat that is theirs.

In `local` it steps on the worker's own gradients; in `center` on the exchanged ones. Where the centre lives on a
server, an optimizer of the same class and settings is made for the server's copy: Adam is never rewritten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from tightwire.algebra.knob import Knob
from tightwire.algebra.rule import Kind
from tightwire.rules.bodies import factor_now, keeps_nothing, mean, never_called, unchanged


@dataclass(frozen=True)
class Yours:
    """The seat of the user's optimizer; as `center` it takes the mean over workers as its gradient.

    ``scale`` is a factor on its learning rates, which may change during the run (`schedules.ramps`).
    """

    scale: Knob = 1.0
    yours: ClassVar[bool] = True
    accepts: ClassVar[Kind] = "direction"
    momentum: ClassVar[float] = 0.0

    weigh = mean
    init = keeps_nothing
    rate = factor_now
    prepare_ = unchanged
    step_ = never_called


@dataclass(frozen=True)
class NoLocal:
    """The worker does not move between exchanges."""

    yours: ClassVar[bool] = False


def yours(scale: Knob = 1.0) -> Yours:
    """Your optimizer sits here; ``scale`` is a factor on its learning rates."""
    return Yours(scale)


def no_local() -> NoLocal:
    """Nobody moves the worker between exchanges."""
    return NoLocal()


def optimizer_like(
    optimizer: torch.optim.Optimizer, names: Mapping[Tensor, str], copies: Mapping[str, Tensor]
) -> tuple[torch.optim.Optimizer, tuple[int, ...]]:
    """An optimizer of the same class and settings over copies of some tensors, and which groups it took over.

    A copy may be some rows of a tensor, as `Segment.key` names them.
    """
    groups: list[dict[str, Any]] = []
    taken = []
    pieces: dict[str, list[str]] = {}
    for key in copies:
        pieces.setdefault(whole_name(key), []).append(key)
    for index, group in enumerate(optimizer.param_groups):
        held = [key for p in group["params"] if p in names for key in pieces.get(names[p], ())]
        if held:
            settings = {key: value for key, value in group.items() if key not in ("params", "param_names")}
            groups.append({**settings, "params": [copies[name] for name in held]})
            taken.append(index)
    like = copy(optimizer)  # as unpickling does it: no constructor has to be guessed
    for key, value in vars(optimizer).items():
        if key not in vars(like) and not hasattr(type(optimizer), key):  # a scheduler's wrapper of `step` stays behind
            setattr(like, key, value)
    like.state = defaultdict(dict)
    like.param_groups = groups
    return like, tuple(taken)


def whole_name(key: str) -> str:
    """The tensor that a key of a bucket is, or is some rows of.

    >>> whole_name("fc.weight@12")
    'fc.weight'
    """
    return key.partition("@")[0]


def rates(optimizer: torch.optim.Optimizer) -> tuple[float, ...]:
    """The learning rate of each group, which a server must follow when a scheduler moves it."""
    return tuple(float(group["lr"]) for group in optimizer.param_groups)


examples = (yours(),)
