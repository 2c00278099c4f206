"""A worker of `splits.trick`: its own examples through the convolutions, everybody's through its units.

One pass of some examples through the fully connected layers, of which this worker has the units r:

    x ─▶ z_r = x·W_rᵀ ─▶ its function ─▶ units of all workers side by side: the next x ─▶ … ─▶ loss, softmax over all
    error of my units ◀─ sum of all workers' parts ◀─ my part of the error of x ◀─ …
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from tightwire.algebra.errors import JoinError, UsageError
from tightwire.run.ferry import Ferry, Letter
from tightwire.run.posts import LossFn, Passed, is_cross_entropy
from tightwire.run.transport import BACKWARD, FORWARD, NUMBERS, Entry
from tightwire.run.worker import Worker
from tightwire.splits.trick import Rows, WeirdTrick
from tightwire.splits.wide import backward_part, column, forward_part, whole_sum

_BY_UNIT = (nn.ReLU, nn.Sigmoid, nn.Tanh, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Softplus, nn.Dropout, nn.Identity)
_ENTRY = Entry("exchange", "convolutions")
Exchange = Callable[[Sequence[Tensor]], list[Tensor]]


class Trick:
    """This worker's convolutions and units."""

    whole_batches = False
    waited_s = 0.0
    busy = False

    def __init__(self, model: nn.Module, split: WeirdTrick, worker: Worker, ferry: Ferry) -> None:
        self.split = split
        self.trace: list[Passed] = []  # there are no versions
        self._worker = worker
        self._ferry = ferry
        self._me, self._size = worker.link.world.rank, split.workers
        layers = list(model) if isinstance(model, nn.Sequential) else []
        first = split.first if split.first is not None else _first_linear(layers)
        self.before = nn.Sequential(*layers[:first])
        self._blocks = _blocks(layers[first:])
        self.whole = [linear for linear, _ in self._blocks]
        self.edges = [list(pairwise(_even(linear.out_features, self._size))) for linear in self.whole]
        self.parts = [column(linear, *edges[self._me]) for linear, edges in zip(self.whole, self.edges, strict=True)]
        self._number = 0
        self._where = 0

    def feed(self, x: Any, y: Any, loss_fn: LossFn) -> Tensor | None:
        """Forward and backward of everybody's batch; its mean loss."""
        self._ferry.land(before=self._number)
        self._number += 1
        self._where = 0
        result = self.before(x)
        mine = result.detach()
        sizes = tuple(int(size) for size in self._swap([torch.tensor([float(len(y))])] * self._size, (), NUMBERS))
        error = torch.zeros_like(mine)
        losses: list[Tensor] = []
        for number, rows in enumerate(passes := self.split.passes(sizes)):
            losses.append(self._pass(mine, y, error, rows, sizes, loss_fn))
            if self.split.update == "each pass" and number < len(passes) - 1:
                self._step()
        if result.requires_grad:
            result.backward(error)
            self._add_up()
        return torch.stack(losses).sum()

    def _pass(self, mine: Tensor, y: Tensor, error: Tensor, rows: tuple[Rows, ...], sizes: tuple[int, ...],
              loss_fn: LossFn) -> Tensor:  # fmt: skip
        """Some examples of some workers through the fully connected layers; fills in the error of mine."""
        lo, hi = rows[self._me]
        givers = [rank for rank, (start, end) in enumerate(rows) if end > start]
        share = sum(end - start for start, end in rows) / sum(sizes)
        key = (rows, tuple(mine.shape[1:]))
        x = torch.cat(self._from(givers, mine[lo:hi], key, FORWARD))
        target = torch.cat(self._from(givers, y[lo:hi].double(), (key, "y"), NUMBERS)).to(y.dtype)
        weight = share if self.split.update == "together" else 1.0
        loss, part = self._through(x, target, loss_fn, key, weight)
        part = part * (share / weight)
        ends = [0, *accumulate(rows[rank][1] - rows[rank][0] for rank in givers)]
        pieces = {rank: part[start:end] for rank, (start, end) in zip(givers, pairwise(ends), strict=True)}
        back = self._to(givers, pieces, (key, "error"))
        if self._me in givers:
            error[lo:hi] = sum(back[1:], back[0])
        return loss * share

    def _through(self, x: Tensor, y: Tensor, loss_fn: LossFn, key: Any, weight: float) -> tuple[Tensor, Tensor]:
        """The mean loss of a pass, and this worker's part of the error of ``x``."""
        seen: list[tuple[Tensor, Tensor]] = []
        for number, (part, (_, functions)) in enumerate(zip(self.parts[:-1], self._blocks[:-1], strict=True)):
            x = x.detach().requires_grad_()
            units = functions(part(x))
            seen.append((x, units))
            x = torch.cat(self._swap([units.detach()] * self._size, (key, number), FORWARD), dim=1)
        loss, error = self._end(x.detach(), y, loss_fn, key, weight)
        for number, (given, units) in reversed(list(enumerate(seen))):
            slices = [error[:, lo:hi] for lo, hi in self.edges[number]]
            heard = self._swap([piece.contiguous() for piece in slices], (key, number), BACKWARD)
            units.backward(sum(heard[1:], heard[0]))
            assert given.grad is not None
            error = given.grad
        return loss, error

    def _end(self, x: Tensor, y: Tensor, loss_fn: LossFn, key: Any, weight: float) -> tuple[Tensor, Tensor]:
        """The last layer and the loss: a softmax over all workers' units, or any loss of all outputs."""
        last, (lo, hi) = self.parts[-1], self.edges[-1][self._me]
        if is_cross_entropy(loss_fn):
            logits = forward_part(last, x, y, lo)
            said = self._swap([logits.said_3B] * self._size, (key, "end"), NUMBERS)
            log_B, loss_B = whole_sum(said)
            return loss_B.mean(), backward_part(last, logits, log_B, weight)
        x = x.requires_grad_()
        mine = last(x)
        outputs = self._swap([mine.detach()] * self._size, (key, "end"), FORWARD)
        every = torch.cat(outputs, dim=1).requires_grad_()
        loss = loss_fn(every, y)
        (loss * weight).backward()
        assert every.grad is not None
        mine.backward(every.grad[:, lo:hi])
        assert x.grad is not None
        return loss.detach(), x.grad

    # ── with the others ───────────────────────────────────────────────────────────────────────────────────────────

    def _letter(self, key: Any) -> Letter:
        self._where += 1
        return Letter(self._number, self._where, key, plain=True)

    def _swap(self, outgoing: Sequence[Tensor], key: Any, tag: int) -> list[Tensor]:
        """Something to each worker, something from each, in rank order."""
        letter = self._letter(key)
        for rank, tensor in enumerate(outgoing):
            self._ferry.send(tensor, rank, tag, letter, self._number)
        return [self._ferry.take(rank, tag, letter) for rank in range(self._size)]

    def _from(self, givers: Sequence[int], mine: Tensor, key: Any, tag: int) -> list[Tensor]:
        """What some workers tell all."""
        letter = self._letter(key)
        for rank in range(self._size) if self._me in givers else ():
            self._ferry.send(mine, rank, tag, letter, self._number)
        return [self._ferry.take(rank, tag, letter) for rank in givers]

    def _to(self, takers: Sequence[int], pieces: dict[int, Tensor], key: Any) -> list[Tensor]:
        """What all workers tell some."""
        letter = self._letter(key)
        for rank in takers:
            self._ferry.send(pieces[rank].contiguous(), rank, BACKWARD, letter, self._number)
        heard = range(self._size) if self._me in takers else ()
        return [self._ferry.take(rank, BACKWARD, letter) for rank in heard]

    def _add_up(self) -> None:
        """Gradients of the convolutions, summed over workers."""
        found = [parameter.grad for parameter in self.before.parameters() if parameter.grad is not None]
        self._worker.assembly.mean_(found, _ENTRY)
        for gradient in found:
            gradient.mul_(self._size)

    def _step(self) -> None:
        """Update the fully connected layers alone: nothing else has a gradient yet."""
        self._worker.optimizer.step()
        self._worker.optimizer.zero_grad()

    def drain(self) -> Tensor | None:
        """Nothing is ever in flight between batches."""
        return None

    def settle(self) -> None:
        """Everything that was sent has left; shapes are told anew."""
        self._ferry.land(before=self._number + 1)
        self._ferry.forget()


def _first_linear(layers: Sequence[nn.Module]) -> int:
    found = [index for index, layer in enumerate(layers) if isinstance(layer, nn.Linear)]
    if not found:
        raise JoinError(
            "weird-trick cuts an nn.Sequential before its first nn.Linear, and there is none; write the model as "
            "nn.Sequential of convolutions and then Linear layers"
        )
    return found[0]


def _blocks(layers: Sequence[nn.Module]) -> list[tuple[nn.Linear, nn.Sequential]]:
    """Linear layers, each with the functions that follow it and act on each unit alone."""
    blocks: list[tuple[nn.Linear, nn.Sequential]] = []
    for layer in layers:
        if isinstance(layer, nn.Linear):
            blocks.append((layer, nn.Sequential()))
        elif isinstance(layer, _BY_UNIT) and blocks:
            blocks[-1][1].append(layer)
        else:
            raise JoinError(
                "weird-trick gives each worker some units of the layers behind the convolutions, and "
                f"{type(layer).__name__} does not act on each unit alone; move it before the first Linear, or leave it "
                "out"
            )
    if not blocks or len(blocks[-1][1]):
        raise JoinError("weird-trick needs an nn.Linear at the end of the model; put the last function into the loss")
    return blocks


def _even(units: int, workers: int) -> list[int]:
    if units < workers:
        raise UsageError(f"{units} units cannot be dealt out over {workers} workers; use fewer workers")
    return [units * k // workers for k in range(workers + 1)]
