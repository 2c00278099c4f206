"""A worker's part of a split model: runs its cells of the timetable in each call of `wire.batch`.

    the schedule streams     one tick a minibatch; what is in flight stays there until later calls, or `drain`
    the schedule flushes     all ticks of one batch; nothing is left in flight

Every rank iterates over the same data: the first stage uses the inputs, the last the targets. A batch may be cut into
microbatches, whose gradients add up to that of the batch; where their passes reach over the end of a call, gradients of
the next batch are kept apart until the update of this one is made.

In a tick a worker first runs all forward passes it is down for, the latest stage first, then the backward passes. So
the numbers that workers of a wide stage tell each other travel while they compute something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from tightwire.algebra.errors import UsageError
from tightwire.algebra.split import Split
from tightwire.run.ferry import Ferry
from tightwire.run.posts import Fed, LossFn, Passed, Post
from tightwire.run.twins import Twins
from tightwire.splits.ageing import pay_out_, shrink_

__all__ = ["Passed", "Pipeline", "Runs"]
_PATIENCE_TICKS = 1  # between a send and the wait until it was taken


class Runs(Protocol):
    """What runs a worker's part of a split model: ours, torch's, or the fully connected trick."""

    whole_batches: bool  # all workers are given the same ones

    @property
    def trace(self) -> list[Passed]:
        """The latest backward passes of this worker's earliest stage."""
        ...

    @property
    def waited_s(self) -> float:
        """How long this worker has waited for messages of others."""
        ...

    @property
    def busy(self) -> bool:
        """True if minibatches are still between stages."""
        ...

    def feed(self, x: Any, y: Any, loss_fn: LossFn) -> Tensor | None:
        """One batch; the loss where it is known."""
        ...

    def drain(self) -> Tensor | None:
        """One call without a new batch."""
        ...

    def settle(self) -> None:
        """Nothing is in flight, everything that was sent has left."""
        ...


class Pipeline:
    """This worker's posts."""

    whole_batches = True  # all workers are given the same ones

    def __init__(
        self, posts: Sequence[Post], split: Split, ferry: Ferry, optimizer: torch.optim.Optimizer, twins: Twins
    ) -> None:
        self.split = split
        self._twins = twins
        self.posts = sorted(posts, key=lambda post: -post.stage)
        self._ferry = ferry
        self._optimizer = optimizer
        self._stepped: list[tuple[Post, list[Tensor | None]]] = []  # with which gradients the last step is made
        self._tick = 0
        self._fed = 0
        self._data: dict[int, Fed] = {}
        self._complete: set[int] = set()  # stages whose gradient of a whole batch is put aside
        self._aside: dict[int, list[Tensor | None]] = {}
        self._expected = -1  # ticks up to this one have places ready

    @property
    def trace(self) -> list[Passed]:
        """The latest backward passes of this worker's earliest stage."""
        return list(self.posts[-1].trace)

    @property
    def waited_s(self) -> float:
        """How long this worker has waited for messages of others."""
        return self._ferry.waited_s

    def feed(self, x: Any, y: Any, loss_fn: LossFn) -> Tensor | None:
        """One batch; the mean loss of the minibatches that reached the last stage, on the workers that know it."""
        if self.split.flush:
            self._restart()
        for fed in self._pieces(x, y, loss_fn):
            self._data[self._fed] = fed
            self._fed += 1
        return self._run(self.split.microbatches + (self.split.tail if self.split.flush else 0))

    @property
    def busy(self) -> bool:
        """True if minibatches are still between stages."""
        return not self.split.flush and self._fed > 0 and self._tick < self._fed + self.split.tail

    def drain(self) -> Tensor | None:
        """The ticks of one call without a new batch. After the last of them the timetable begins anew."""
        loss = self._run(self.split.microbatches)
        if not self.busy:
            self._restart()
        return loss

    def _restart(self) -> None:
        self._ferry.land(before=self._tick)
        self._tick = self._fed = 0
        self._expected = -1
        self._data.clear()
        for post in self.posts:
            post.restart()

    def settle(self) -> None:
        """Nothing is in flight, everything that was sent has left: a run that is resumed here goes on like this one."""
        self._after_step()
        self._ferry.land(before=self._tick)
        self._ferry.forget()

    def _pieces(self, x: Any, y: Any, loss_fn: LossFn) -> Iterator[Fed]:
        pieces = self.split.microbatches
        if pieces == 1:
            yield Fed(x, y, loss_fn)
            return
        if not (isinstance(x, Tensor) and isinstance(y, Tensor) and pieces <= len(x) == len(y)):
            raise UsageError(
                f"a batch is cut into {pieces} microbatches, which takes tensors of at least {pieces} samples; give "
                "larger batches (drop_last=True), or fewer microbatches"
            )
        for part_x, part_y in zip(x.tensor_split(pieces), y.tensor_split(pieces), strict=True):
            yield Fed(part_x, part_y, loss_fn, len(part_x) / len(x))

    # ── ticks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, ticks: int) -> Tensor | None:
        losses: list[tuple[float, Tensor]] = []
        self._after_step()
        for post in self.posts:
            post.begin(self._next_forward(post))
        self._bring_back()
        for _ in range(ticks):
            losses += self._run_tick()
        self._finish_call()
        total = sum(weight for weight, _ in losses)
        return torch.stack([loss * (weight / total) for weight, loss in losses]).sum() if losses else None

    def _next_forward(self, post: Post) -> int:
        forward = self.split.work(post.stage, self._tick).forward
        return 0 if forward is None else forward

    def _run_tick(self) -> list[tuple[float, Tensor]]:
        tick = self._tick
        self._expect(tick)
        self._expect(tick + 1)
        self._ferry.land(before=tick - _PATIENCE_TICKS)
        self._tick += 1
        known: list[tuple[float, Tensor]] = []
        for post in self.posts:
            minibatch = self.split.work(post.stage, tick).forward
            if minibatch is not None and minibatch in self._data:
                loss = post.forward(minibatch, self._data[minibatch], tick)
                known += [] if loss is None else [(self._data[minibatch].weight, loss)]
        for post in self.posts:
            minibatch = self.split.work(post.stage, tick).backward
            if minibatch is not None and minibatch in self._data:
                loss = post.backward(minibatch, tick)
                known += [] if loss is None else [(self._data[minibatch].weight, loss)]
                self._close_batch(post, minibatch)
        return known

    def _expect(self, tick: int) -> None:
        """Have places ready for a tick, if all that it will take is known now; in order."""
        cells = [self.split.work(post.stage, tick) for post in self.posts]
        unknown = any(cell.forward is not None and cell.forward >= self._fed for cell in cells)
        if tick != self._expected + 1 or (unknown and tick > self._tick):
            return
        self._expected = tick
        for post, cell in zip(self.posts, cells, strict=True):
            post.expect(self._given(cell.forward), self._given(cell.backward))

    def _given(self, minibatch: int | None) -> tuple[int, Fed] | None:
        return None if minibatch is None or minibatch not in self._data else (minibatch, self._data[minibatch])

    # ── gradients of several batches ──────────────────────────────────────────────────────────────────────────────

    def _close_batch(self, post: Post, minibatch: int) -> None:
        """After the last microbatch of a batch its gradient is complete: put it aside until the call ends."""
        if (minibatch + 1) % self.split.microbatches:
            return
        self._aside[post.stage] = _grads(post)
        self._complete.add(post.stage)
        if post.stage == min(other.stage for other in self.posts):
            first = minibatch + 1 - self.split.microbatches
            for done in range(first, minibatch + 1):
                self._data.pop(done, None)

    def _finish_call(self) -> None:
        """What is complete becomes the gradient that the update takes; what is not is kept for the next call."""
        self._twins.mean_([grad for stage in sorted(self._complete) for grad in self._aside[stage] if grad is not None])
        for post in self.posts:
            left = _grads(post)
            if post.stage in self._complete:
                _set_grads(post, self._aside.pop(post.stage))
                post.version += 1
                if self.split.compensation == "discount":
                    shrink_(post.parameters, self.split.delay(post.stage))
                if self.split.compensation in ("spike", "both"):
                    self._stepped.append((post, [parameter.grad for parameter in post.parameters]))
            if any(grad is not None for grad in left):
                self._aside[post.stage] = left
        self._complete.clear()

    def _after_step(self) -> None:
        """Your optimizer has stepped since the last call."""
        for post, gradients in self._stepped:
            pay_out_(post.parameters, gradients, self._optimizer, self.split.delay(post.stage))
        self._stepped.clear()

    def _bring_back(self) -> None:
        for post in self.posts:
            if post.stage in self._aside:
                _set_grads(post, self._aside.pop(post.stage))


def _grads(post: Post) -> list[Tensor | None]:
    """The gradients of a post, taken away from its parameters."""
    found = [parameter.grad for parameter in post.parameters]
    for parameter in post.parameters:
        parameter.grad = None
    return found


def _set_grads(post: Post, grads: Sequence[Tensor | None]) -> None:
    for parameter, grad in zip(post.parameters, grads, strict=True):
        parameter.grad = grad
