"""What a worker does at a stage: the layers of one, its end with the loss, or some columns of a wide one.

layers   receive ─▶ forward ─▶ send to whoever keeps the next stage;   sum of their errors ─▶ backward ─▶ send
end      the same, with the loss in place of the next stage
columns  receive ─▶ logits of my columns ─▶ three numbers a sample to the other columns' workers
         their numbers ─▶ softmax over all columns ─▶ gradients, my part of the error ─▶ send
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tightwire.algebra.errors import UsageError
from tightwire.algebra.split import Split
from tightwire.run.ferry import Ferry, Letter
from tightwire.run.transport import BACKWARD, FORWARD, NUMBERS
from tightwire.splits.ageing import foretold
from tightwire.splits.versions import keep_versions
from tightwire.splits.wide import Logits, backward_part, forward_part, whole_sum

LossFn = Callable[[Tensor, Any], Tensor]
TRACED = 1000  # backward passes that are remembered


@dataclass(frozen=True)
class Fed:
    """A minibatch as the script gave it; ``weight`` is its share of the batch that it is a piece of."""

    x: Any
    y: Any
    loss_fn: LossFn
    weight: float = 1.0

    @property
    def shape(self) -> tuple[int, ...] | None:
        """What shapes at the boundaries depend on; None: they must be told each time."""
        return tuple(self.x.shape) if isinstance(self.x, Tensor) else None


@dataclass(frozen=True)
class Passed:
    """One backward pass, and how many own updates were made before it and before its forward pass."""

    minibatch: int
    forward_version: int
    backward_version: int


@dataclass
class Flight:
    """A minibatch between its forward and its backward pass at this stage."""

    fed: Fed
    given: Tensor
    result: Tensor
    version: int


def _trace() -> deque[Passed]:
    return deque(maxlen=TRACED)


class Post(Protocol):
    """A worker's part of one stage."""

    stage: int
    version: int
    trace: deque[Passed]

    @property
    def parameters(self) -> list[nn.Parameter]:
        """What is trained here."""
        ...

    def restart(self) -> None:
        """Nothing is in flight: minibatches and versions are counted from 0 again."""
        ...

    def begin(self, upcoming: int) -> None:
        """A call begins; ``upcoming`` is the next minibatch that goes forward."""
        ...

    def expect(self, forward: tuple[int, Fed] | None, backward: tuple[int, Fed] | None) -> None:
        """Have places ready for what a tick will take."""
        ...

    def forward(self, minibatch: int, fed: Fed, tick: int) -> Tensor | None:
        """The forward pass; the loss, where it is known then."""
        ...

    def backward(self, minibatch: int, tick: int) -> Tensor | None:
        """The backward pass; the loss, where it is known only then."""
        ...


@dataclass
class Layers:
    """All layers of a stage. ``before`` keeps the stage before, ``after`` the stage that follows, or parts of it."""

    stage: int
    module: nn.Module
    split: Split
    ferry: Ferry
    optimizer: torch.optim.Optimizer
    before: int | None
    after: Sequence[int]
    version: int = 0
    trace: deque[Passed] = field(default_factory=_trace)
    flights: dict[int, Flight] = field(default_factory=dict)
    stash: dict[int, list[Tensor]] = field(default_factory=dict)

    @property
    def parameters(self) -> list[nn.Parameter]:
        """What is trained here."""
        return list(self.module.parameters())

    def restart(self) -> None:
        """Count from 0 again."""
        self.version = 0
        self.stash.clear()

    def begin(self, upcoming: int) -> None:
        """Keep the weights as they are now, if some forward pass will have to see them later."""
        oldest = self.split.version(self.stage, upcoming)
        if oldest is None:
            return
        if self.version not in self.stash:
            self.stash[self.version] = [weight.detach().clone() for weight in self.parameters]
        self.stash = {version: kept for version, kept in self.stash.items() if version >= oldest}

    def expect(self, forward: tuple[int, Fed] | None, backward: tuple[int, Fed] | None) -> None:
        """One activation, an error from each keeper of the next stage."""
        if forward is not None and self.before is not None:
            self.ferry.expect(self.before, FORWARD, Letter(forward[0], self.stage, forward[1].shape))
        for owner in self.after if backward is not None else ():
            assert backward is not None
            self.ferry.expect(owner, BACKWARD, Letter(backward[0], self.stage + 1, backward[1].shape))

    def forward(self, minibatch: int, fed: Fed, tick: int) -> Tensor | None:
        """Receive, compute, send."""
        letter = Letter(minibatch, self.stage, fed.shape)
        given = fed.x if self.before is None else self.ferry.take(self.before, FORWARD, letter).requires_grad_()
        version, values = self._weights(minibatch)
        with keep_versions(self.module, self.split.versions, values):
            result = self.module(given)
            if not self.after:
                result = fed.loss_fn(result, fed.y)
        if not isinstance(result, Tensor):
            raise UsageError(f"stage {self.stage} gave {type(result).__name__}; stages pass on one tensor")
        self.flights[minibatch] = Flight(fed, given, result, version)
        for owner in self.after:
            self.ferry.send(result.detach(), owner, FORWARD, Letter(minibatch, self.stage + 1, fed.shape), tick)
        return None if self.after else result.detach()

    def _weights(self, minibatch: int) -> tuple[int, list[Tensor] | None]:
        """The version that a forward pass sees, and its values where they are not those of now."""
        version = self.split.version(self.stage, minibatch)
        if version is not None:
            return version, self.stash[version]
        if self.split.compensation in ("predict", "both"):
            return self.version, foretold(self.parameters, self.optimizer, self.split.delay(self.stage))
        return self.version, None

    def backward(self, minibatch: int, tick: int) -> Tensor | None:
        """Receive, compute, send."""
        flight = self.flights.pop(minibatch)
        letter = Letter(minibatch, self.stage + 1, flight.fed.shape)
        if self.after:
            errors = [self.ferry.take(owner, BACKWARD, letter) for owner in self.after]
            for error in errors[1:]:
                errors[0] = errors[0].add_(error)
            if flight.result.requires_grad:  # a first stage may have nothing to train
                flight.result.backward(errors[0])
        else:
            (flight.result if flight.fed.weight == 1.0 else flight.result * flight.fed.weight).backward()
        self.trace.append(Passed(minibatch, flight.version, self.version))
        if self.before is not None:
            assert flight.given.grad is not None
            back = Letter(minibatch, self.stage, flight.fed.shape)
            self.ferry.send(flight.given.grad, self.before, BACKWARD, back, tick)
        return None


@dataclass
class Columns:
    """Some columns of the last layer, with the softmax over all of them."""

    stage: int
    layer: nn.Linear
    first: int
    ferry: Ferry
    before: int
    others: Sequence[int]
    version: int = 0
    trace: deque[Passed] = field(default_factory=_trace)
    flights: dict[int, tuple[Fed, Logits, int]] = field(default_factory=dict)

    @property
    def parameters(self) -> list[nn.Parameter]:
        """What is trained here."""
        return list(self.layer.parameters())

    def restart(self) -> None:
        """Count from 0 again."""
        self.version = 0

    def begin(self, upcoming: int) -> None:
        """Forward and backward are in one tick: there is one version."""

    def expect(self, forward: tuple[int, Fed] | None, backward: tuple[int, Fed] | None) -> None:
        """One activation, three numbers a sample from each of the others."""
        if forward is not None:
            self.ferry.expect(self.before, FORWARD, Letter(forward[0], self.stage, forward[1].shape))
            for other in self.others:
                self.ferry.expect(other, NUMBERS, Letter(forward[0], self.stage, forward[1].shape, plain=True))

    def forward(self, minibatch: int, fed: Fed, tick: int) -> Tensor | None:
        """Logits of these columns; the others are told what they must know."""
        if not is_cross_entropy(fed.loss_fn):
            raise UsageError(
                "a last layer that is dealt out computes the loss itself, the mean cross-entropy of classes; pass "
                "torch.nn.functional.cross_entropy or nn.CrossEntropyLoss() to wire.batch, or use wide=0"
            )
        letter = Letter(minibatch, self.stage, fed.shape)
        given_BD = self.ferry.take(self.before, FORWARD, letter)
        part = forward_part(self.layer, given_BD, fed.y, self.first)
        for other in self.others:
            self.ferry.send(part.said_3B, other, NUMBERS, Letter(minibatch, self.stage, fed.shape, plain=True), tick)
        self.flights[minibatch] = (fed, part, self.version)
        return None

    def backward(self, minibatch: int, tick: int) -> Tensor | None:
        """Softmax over all columns, gradients of these, their part of the error."""
        fed, part, version = self.flights.pop(minibatch)
        letter = Letter(minibatch, self.stage, fed.shape, plain=True)
        heard = [self.ferry.take(other, NUMBERS, letter) for other in self.others]
        log_B, loss_B = whole_sum([part.said_3B, *heard])
        error_BD = backward_part(self.layer, part, log_B, fed.weight)
        self.ferry.send(error_BD, self.before, BACKWARD, Letter(minibatch, self.stage, fed.shape), tick)
        self.trace.append(Passed(minibatch, version, self.version))
        return loss_B.mean()


def is_cross_entropy(loss_fn: LossFn) -> bool:
    """Whether a loss is the mean cross-entropy of classes, as it is without options."""
    if loss_fn is F.cross_entropy:
        return True
    if not isinstance(loss_fn, nn.CrossEntropyLoss):
        return False
    usual = nn.CrossEntropyLoss()
    plain = ("reduction", "ignore_index", "label_smoothing")
    return loss_fn.weight is None and all(getattr(loss_fn, name) == getattr(usual, name) for name in plain)
