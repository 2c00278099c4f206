"""The `memory` axis: what happens to what was not sent.

    gradient ──▶ before ──▶ value ──▶ codec ──▶ wire
                   ▲                    │
                   └────── after ◀── Sent, received

A memory works on its own state in place; the value that `before` returns may *be* that state, so remembering
costs no copy. All fields of a memory are sums over workers of something still owed (or of velocity), which is why
any memory can be folded onto another number of workers without loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tightwire.algebra.codec import Sent
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At


@runtime_checkable
class Memory(Protocol):
    """What a worker carries from one exchange to the next.

    Laws (`tightwire.testing.memories`): what was to be sent = sent + owed, for any codec at any step; what is owed is
    part of the next value (a share of it, for a memory that `Forgets`); a refund restores what was owed; folding onto
    another world conserves the sum over workers.
    """

    @property
    def keeps(self) -> bool:
        """False if there is no state, so that the exchange may use the gradient's own memory."""
        ...

    @property
    def momentum(self) -> float:
        """Momentum applied here; at most one seat of a recipe may have any."""
        ...

    @property
    def listens(self) -> bool:
        """True if `after` uses what came back, which only a collective brings."""
        ...

    def init(self, spec: Spec) -> State:
        """State before the first step."""
        ...

    def before(self, x: Bucket, state: State, at: At) -> Bucket:
        """Take in ``x`` and return what should be sent now. ``x`` is free afterwards unless it is returned."""
        ...

    def after(self, value: Bucket, sent: Sent, received: Bucket, state: State, at: At) -> None:
        """Keep the rest, once ``sent`` has left and the sum over all workers, ``received``, has come back."""
        ...

    def refund(self, sent: Sent, state: State) -> None:
        """Take back a contribution that the receiver dropped."""
        ...

    def owed(self, state: State) -> Mapping[str, Tensor]:
        """What was given and not yet sent, by tensor."""
        ...


@runtime_checkable
class Forgets(Protocol):
    """A memory that takes only a share of what it owed into its next value; the rest of that is lost for good."""

    @property
    def decay(self) -> float:
        """The share: above 0, and 1 where nothing is forgotten."""
        ...


def bucket_of(state: State, field: str) -> Bucket:
    """A field that was laid out as a bucket."""
    bucket = state[field]
    assert isinstance(bucket, Bucket)
    return bucket


def give_back_(bucket: Bucket, sent: Sent) -> None:
    """Bucket ← bucket + sent."""
    bucket.flat.neg_()
    sent.subtract_from_(bucket)
    bucket.flat.neg_()


def fold(states: Sequence[State], rank: int, size: int) -> State:
    """The state of ``rank`` in a world of ``size``, from all states of another world.

    Old rank j goes to new rank j mod size, so the sum over workers of every field is conserved.

    >>> old = [{"r": {"w": torch.tensor([float(j)])}} for j in range(3)]
    >>> [fold(old, rank, 2)["r"]["w"].item() for rank in (0, 1)]
    [2.0, 1.0]
    """
    mine = [state for j, state in enumerate(states) if j % size == rank]
    if not mine:
        return {f: {n: torch.zeros_like(t) for n, t in named.items()} for f, named in states[0].items()}
    folded: State = {}
    for field, named in mine[0].items():
        folded[field] = {name: sum((s[field][name] for s in mine[1:]), named[name].clone()) for name in named}
    return folded
