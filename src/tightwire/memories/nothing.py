"""No memory: what is not sent is gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from tightwire.algebra.codec import Sent
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At


@dataclass(frozen=True)
class Nothing:
    """The value to send is the gradient itself."""

    keeps: ClassVar[bool] = False
    momentum: ClassVar[float] = 0.0
    listens: ClassVar[bool] = False

    def init(self, spec: Spec) -> State:
        """Nothing."""
        return {}

    def before(self, x: Bucket, state: State, at: At) -> Bucket:
        """X itself."""
        return x

    def after(self, value: Bucket, sent: Sent, received: Bucket, state: State, at: At) -> None:
        """Nothing."""

    def refund(self, sent: Sent, state: State) -> None:
        """There is nowhere to keep it: the ledger counts it as dropped."""

    def owed(self, state: State) -> Mapping[str, Tensor]:
        """Nothing."""
        return {}


def nothing() -> Nothing:
    """No memory."""
    return Nothing()


examples = (nothing(),)
