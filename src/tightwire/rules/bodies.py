"""Bodies that rules have in common, as functions: a rule takes one by name, ``weigh = mean``, and inherits nothing.

weigh     mean, in_full
init      keeps_nothing
step_     subtract; never_called, where the seat is the user's optimizer
rate      factor_now        prepare_    unchanged                          both for such seats only
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor

from tightwire.algebra.knob import Knob, value_at
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At


class Scaled(Protocol):
    """What has a factor on learning rates."""

    @property
    def scale(self) -> Knob:
        """The factor, which may change during the run."""
        ...


def mean(rule: object, staleness: int, together: int) -> float:
    """The mean of what is applied together: of all workers in a collective, of one on an asynchronous server."""
    return 1 / together


def in_full(rule: object, staleness: int, together: int) -> float:
    """Everything counts in full."""
    return 1.0


def keeps_nothing(rule: object, spec: Spec) -> State:
    """No state of one's own; the user's optimizer keeps its own."""
    return {}


def subtract(rule: object, shared: Bucket, total: Bucket, state: State, at: At) -> None:
    """C ← c − weighed sum."""
    shared.flat.sub_(total.flat)


def factor_now(rule: Scaled, at: At) -> float:
    """The factor on the learning rates now."""
    return value_at(rule.scale, at)


def unchanged(rule: object, weight: Tensor, gradient: Tensor, group: Mapping[str, Any]) -> None:
    """Gradients are taken as they are."""


def never_called(rule: object, shared: Bucket, total: Bucket, state: State, at: At) -> None:
    """Never called: the optimizer steps once for all tensors, and the runtime calls it."""
    raise AssertionError("the runtime steps the user's optimizer")
