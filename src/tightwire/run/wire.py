"""What a training script holds: one object for the whole run of one worker. Made by `tightwire.join`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from tightwire.algebra.errors import UsageError
from tightwire.algebra.recipe import AnyRecipe, describe, leaves
from tightwire.algebra.split import Split
from tightwire.algebra.world import World
from tightwire.run import checkpoint
from tightwire.run.answer import bring_answer, recalibrate
from tightwire.run.clip import clip
from tightwire.run.data import Share
from tightwire.run.identity import agree_on_run, description_of
from tightwire.run.pipeline import Runs
from tightwire.run.restore import restore_worker, worker_state
from tightwire.run.seated import take_seats
from tightwire.run.serve import Client
from tightwire.run.shared import own, take_own_copies
from tightwire.run.stale import staleness_of
from tightwire.run.transport import Entry
from tightwire.run.worker import Worker
from tightwire.telemetry import event
from tightwire.telemetry.ledger import Ledger

T = TypeVar("T")


class Wire:
    """A worker's connection to the run: what a training script calls. Made by `join`."""

    def __init__(self, worker: Worker, model: nn.Module, at_end: Callable[[], None]) -> None:
        self.model = model
        self._at_end = at_end
        self._worker = worker
        self._shares: list[Share[Any]] = []
        self._drawn: list[float] = []
        self._pipeline: Runs | None = None
        self._stages: Sequence[Sequence[Tensor]] = ()  # what each rank owns of a split model
        self._open = True

    # ── who and where ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def rank(self) -> int:
        """This worker's number."""
        return self._worker.link.world.rank

    @property
    def size(self) -> int:
        """How many workers there are."""
        return self._worker.link.world.size

    @property
    def clock(self) -> int:
        """Steps taken."""
        return self._worker.clock

    @property
    def epochs(self) -> float | None:
        """Epochs passed, as `shard` counts them; a script that deals out its data itself sets it."""
        return self._worker.epochs

    @epochs.setter
    def epochs(self, passed: float) -> None:
        self._worker.epochs = passed

    @property
    def ledger(self) -> Ledger:
        """Every byte so far."""
        return self._worker.ledger

    def faults(self) -> dict[str, Any]:
        """What this worker's servers refused, and who was slow or silent there."""
        return self._worker.link.faults()

    # ── the training loop ─────────────────────────────────────────────────────────────────────────────────────────

    def shard(self, loader: DataLoader[T]) -> Share[T]:
        """This worker's batches of a loader (`run.data`); the first loader given is the training data."""
        world, replicas = self._worker.link.world, self.replicas
        if self.pipeline is not None:  # all stages of a replica see the same batches
            world = World(world.rank * replicas // world.size, replicas)
        share = Share(loader, world, self._worker.settings.seed, self._drew)
        self._shares.append(share)
        return share

    def step(self, loss: Tensor | float | None = None) -> None:
        """Exchange, step the optimizer, clear the gradients. ``loss`` is only recorded."""
        self._require_open()
        self._worker.step(loss)
        self._drawn.clear()
        self._worker.batch_weight = 1.0

    def batch(self, x: Any, y: Any, loss_fn: Callable[[Tensor, Any], Tensor]) -> Tensor | None:
        """Forward and backward of one batch, for any recipe; recipes with a split need it.

        Returns the loss where it is known: everywhere without a split, else on the last stage, of the batch that
        reached it.
        """
        self._require_open()
        if self._pipeline is not None:
            return self._pipeline.feed(x, y, loss_fn)
        loss = loss_fn(self.model(x), y)
        loss.backward()
        return loss.detach()

    def accumulate(self) -> AbstractContextManager[None]:
        """Backward passes inside add up gradients and send nothing; the last one of a step goes outside."""
        assert self._worker.launcher is not None
        return self._worker.launcher.pause()

    def clip(self, max_norm: float, *, wait: bool = True) -> float:
        """Clip by the global norm, between backward() and step(); returns it, or NaN without waiting (`run.clip`)."""
        self._require_open()
        return clip(self._worker, max_norm, wait=wait)

    def _drew(self, share: Share[Any], weight: float) -> None:
        """A batch was handed out: contributions are weighed by the batches drawn since the last step."""
        if share is self._shares[0]:
            self._drawn.append(weight)
            self._worker.epochs = share.epochs
            self._worker.batch_weight = sum(self._drawn) / len(self._drawn)

    # ── all workers together ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def lockstep(self) -> bool:
        """True if all workers take the same steps, so that they can do things together while training."""
        return all(lane.recipe.schedule.lockstep or lane.leaf.inner is not None for lane in self._worker.lanes)

    def agree(self, flag: bool) -> bool:
        """True on every worker if it is true on any; also a barrier. All workers call this together."""
        heard = torch.tensor([float(flag)])
        self._worker.assembly.max_(heard, Entry("agree", "flag"))
        return bool(heard)

    def add_up_(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over workers."""
        self._worker.assembly.mean_([tensor], Entry("agree", "sum"))
        tensor.mul_(self.size)

    def everyones(self, data: bytes) -> list[bytes]:
        """What each worker says, in rank order."""
        return self._worker.assembly.everyones(data, Entry("agree", "words"))

    def count(self, name: str, amount: int = 0) -> int:
        """Add to a number that all workers share; returns what it is then. Nobody waits; checkpoints keep it."""
        self._worker.counts[name] += amount
        return self._worker.link.count(name, amount)

    @property
    def applied(self) -> bool:
        """False if a server made no use of what this worker pushed in its last step."""
        return not any(isinstance(client, Client) and client.dropped for client in self._worker.clients.values())

    def staleness(self) -> dict[str, Any] | None:
        """How old contributions to servers were when they were applied (`run.stale`); None without a server."""
        return staleness_of(self._worker)

    # ── results ───────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def answer(self) -> Iterator[nn.Module]:
        """Inside, the model is the recipe's answer (centre or average); afterwards this worker's own again.

        All workers must enter together.
        """
        self._require_open()
        self.drain()
        mine = own(self._worker, self.model.state_dict().items())
        bring_answer(self._worker, self.model, self._stages)
        try:
            yield self.model
        finally:
            with torch.no_grad():
                for name, tensor in self.model.state_dict().items():
                    if name in mine:
                        tensor.copy_(mine[name])

    def recalibrate(self, batches: Iterable[Any]) -> None:
        """Compute batch-norm statistics anew for the weights as they are; all workers together."""
        recalibrate(self.model, batches, self._worker.assembly)

    def drain(self) -> None:
        """Finish the minibatches that are between the stages of a split model."""
        while self._pipeline is not None and self._pipeline.busy:
            self._pipeline.drain()
            self._worker.step()
        if self._pipeline is not None:
            self._pipeline.settle()

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state_dict(self) -> dict[str, Any]:
        """Everything this rank needs to go on: weights, optimizer, memories, clocks, random states, data position."""
        self.drain()
        state = worker_state(self._worker, self.model)
        state["shares"] = [share.position() for share in self._shares]
        return state

    def load_state_dict(self, states: dict[str, Any] | list[dict[str, Any]]) -> list[str]:
        """Go on from this rank's state, or from those of all ranks of any world; says what that changed."""
        every = states if isinstance(states, list) else [states] * self.size
        changes = restore_worker(self._worker, self.model, every)
        mine = every[self.rank] if len(every) == self.size else every[0]
        for share, position in zip(self._shares, mine["shares"], strict=False):
            share.seek(position)
        return changes

    def save(self, folder: str | Path) -> Path:
        """Write a checkpoint of all ranks into ``folder``; all workers together. Returns its path."""
        farthest = torch.tensor([self.clock])
        self._worker.assembly.max_(farthest, Entry("setup", "checkpoint"))  # every push is in before a server is asked
        state, description = self.state_dict(), description_of(self._worker, self.model, int(farthest))
        path = checkpoint.save(Path(folder), state, description, self.rank, self._worker.assembly)
        self._worker.emit(event.Saved, folder=str(path))
        return path

    def load(self, folder: str | Path) -> list[str]:
        """Go on from a checkpoint, or from the newest one in a folder; says what another world changed."""
        path, workers = checkpoint.find(Path(folder), description_of(self._worker, self.model))
        changes = self.load_state_dict([checkpoint.read_rank(path, rank) for rank in range(workers)])
        self._worker.emit(event.Restored, folder=str(path), changes=tuple(changes))
        return changes

    # ── beginning and end ─────────────────────────────────────────────────────────────────────────────────────────

    def open(self) -> None:
        """Agree on model and recipe, share rank 0's weights, lay out the lanes. `join` calls this."""
        worker = self._worker
        agree_on_run(worker, self.model)
        weights = [*self.model.parameters(), *self.model.buffers()]
        worker.assembly.broadcast_([t.detach() for t in weights], Entry("setup", "weights"))
        if (split := _split_of(worker.recipe)) is not None:
            self._pipeline, self._stages = take_seats(self.model, split, worker)
        worker.build()
        if worker.clients:
            self.agree(False)  # nobody pushes before everybody has read the first centre
        worker.send_ahead()
        if hasattr(self.model, "_orig_mod"):
            worker.note(
                "the model is compiled: gradients appear together at the end of each compiled graph, so less of the "
                "exchange overlaps with the backward pass"
            )
        worker.emit(event.Joined, workers=self.size, recipe=describe(worker.recipe))

    @property
    def pipeline(self) -> Runs | None:
        """This worker's stage, if the recipe splits the model so that all workers are given the same batches."""
        return self._pipeline if self._pipeline is not None and self._pipeline.whole_batches else None

    @property
    def replicas(self) -> int:
        """How many times a split model is there, each on other batches."""
        return 1 if (split := _split_of(self._worker.recipe)) is None else split.cut.replicas

    def close(self, *, leave: bool = True) -> None:
        """Leave the run at once, without waiting for anybody; ``leave=False`` does not even tell the servers."""
        if self._open:
            self._open = False
            self._worker.close(leave=leave)
            self._worker.link.close(abandon=not leave)
            self._worker.settings.events.close()
            self._at_end()

    def _require_open(self) -> None:
        if not self._open:
            raise UsageError("this wire is closed; call join() again")

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the answer in the model and close; after an error, just close."""
        try:
            if kind is None:
                self._worker.finish()
                self.drain()
                self._worker.settle(lane for lane in self._worker.lanes if lane.has_center)
                bring_answer(self._worker, self.model, self._stages)
                take_own_copies(self._worker)
        finally:
            self.close(leave=kind is None)


def _split_of(recipe: AnyRecipe) -> Split | None:
    return next((leaf.recipe.split for leaf in leaves(recipe) if leaf.recipe.split.stages > 1), None)
