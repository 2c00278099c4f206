"""What a DDP hook keeps between calls: DDP's buckets on one side, our parcels and their memories on the other.

    DDP's buckets    ┌ 0 ────────────┐┌ 1 ───────┐┌ 2 ───────────────┐     in the order DDP calls the hook
    our parcels      ┌ A ────┐┌ B ──────────┐┌ C ────────────────────┐     launched strictly A, B, C on every rank
    comm thread        A      B  answer 0    C  answer 1, answer 2         jobs, one after another

A parcel is launched when it is complete and all before it have been; a bucket is answered when all its parcels have
crossed. One thread does both, in one order, on all ranks. That is what gloo needs: hooks whose callbacks start
collectives when they happen to run, start them in different orders on different ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from tightwire.algebra.errors import CheckpointError, JoinError, UsageError
from tightwire.algebra.link import Link
from tightwire.algebra.recipe import AnyRecipe, changes_at, describe
from tightwire.algebra.world import At
from tightwire.run.conduct import cross
from tightwire.run.lane import Lane, lay_out
from tightwire.run.outer import Capture
from tightwire.run.parcel import Parcel
from tightwire.run.refuse import check_optimizer, trainable
from tightwire.run.restore import lanes_state, restore_parcel
from tightwire.run.settings import Settings
from tightwire.run.streams import Side
from tightwire.run.transport import Entry, Transport
from tightwire.telemetry import event
from tightwire.telemetry.ledger import Ledger


@dataclass(frozen=True)
class _Handed:
    """One of DDP's buckets: answered through the future when all its tensors are back."""

    names: tuple[str, ...]
    gradients: Sequence[Tensor]
    buffer: Tensor
    future: Future[Tensor]


class HookState:
    """What DDP keeps for the hook: parcels and their memories, a clock, a ledger. Made by `ddp_hook`.

    ``epochs`` is yours to set, for recipes that change with them.
    """

    def __init__(
        self, recipe: AnyRecipe, link: Link, settings: Settings, optimizer: torch.optim.Optimizer | None
    ) -> None:
        self.recipe = recipe
        self.link = link
        self.settings = settings
        self.ledger = Ledger()
        self.clock = 0
        self.epochs: float | None = None
        self.lanes: list[Lane] = []
        self._optimizer = optimizer
        self._transport = Transport(link, self.ledger, settings.exchange_timeout_s)
        self._tensors: dict[str, nn.Parameter] = {}
        self._names: dict[Tensor, str] = {}
        self._side = Side(torch.device("cpu"))
        self._direct = False
        self._capture: Capture | None = None
        self._stale = True  # a phase has ended, or nothing is laid out yet
        self._saved: list[dict[str, Any]] = []  # a checkpoint that waits for the model
        self._failure: BaseException | None = None
        self._queue: list[tuple[Lane, Parcel]] = []
        self._where: dict[str, int] = {}  # a tensor's place in the queue
        self._missing: list[set[str]] = []
        self._next = 0
        self._handed: list[_Handed] = []

    # ── DDP and its model ─────────────────────────────────────────────────────────────────────────────────────────

    def meet(self, ddp: DistributedDataParallel) -> None:
        """Learn the names of the parameters."""
        group = dist.get_world_size(ddp.process_group)
        if group != self.link.world.size:
            raise JoinError(
                f"this DDP model exchanges among {group} of {self.link.world.size} processes, the hook among all; "
                "build DistributedDataParallel without process_group"
            )
        left_out = set(ddp.parameters_to_ignore)
        self._tensors = {name: t for name, t in trainable(ddp.module).items() if name not in left_out}
        if self._optimizer is not None:
            check_optimizer(self.recipe, self._optimizer, trainable(ddp.module))
        self._names = {tensor: name for name, tensor in self._tensors.items()}
        self._capture = Capture(ddp.module, self)
        self._side = Side(next(iter(self._tensors.values())).device)
        self._refresh()

    def take(self, bucket: Any) -> Future[Tensor]:
        """A bucket is ready: its gradients go into their parcels, complete parcels onto the wire."""
        if self._failure is not None:
            raise self._failure
        if not self._tensors:
            raise UsageError(
                "the hook has not seen its DDP model run; give it the model: tw.ddp_hook(recipe, model=ddp)"
            )
        if bucket.index() == 0:
            self._begin()
        buffer = bucket.buffer()
        if buffer.layout != torch.strided:
            raise UsageError(
                "DDP hands over a sparse gradient, which the hook cannot carry; use Embedding(sparse=False)"
            )
        names = tuple(self._names[parameter] for parameter in bucket.parameters())
        future: Future[Tensor] = Future(devices=[buffer.device] if buffer.is_cuda else None)
        self._handed.append(_Handed(names, bucket.gradients(), buffer, future))
        self._collect(self._handed[-1])
        if bucket.is_last():
            self._zero_missing()
        self._launch_complete()
        if bucket.is_last():
            self._tick()
        return future.then(self._handed_back)

    def _begin(self) -> None:
        self._refresh()
        self._missing = [set(parcel.tensors) for _, parcel in self._queue]
        self._next = 0
        self._handed = []

    @torch.no_grad()
    def _collect(self, handed: _Handed) -> None:
        for name, gradient in zip(handed.names, handed.gradients, strict=True):
            lane, parcel = self._queue[self._where[name]]
            torch.mul(gradient, lane.scale, out=parcel.x[name])
            self._missing[self._where[name]].discard(name)

    def _zero_missing(self) -> None:
        """DDP has no more buckets: what it did not hand over has no gradient."""
        for (_, parcel), missing in zip(self._queue, self._missing, strict=True):
            for name in missing:
                parcel.x[name].zero_()
            missing.clear()

    def _launch_complete(self) -> None:
        while self._next < len(self._queue) and not self._missing[self._next]:
            self._launch(*self._queue[self._next])
            self._next += 1
        ready = [handed for handed in self._handed if all(self._where[name] < self._next for name in handed.names)]
        for handed in ready:
            self._handed.remove(handed)
            self._answer(handed)

    def _launch(self, lane: Lane, parcel: Parcel) -> None:
        parcel.pay_debts()
        at, pending = self.at(), None
        if self._direct:
            entry = Entry("exchange", parcel.label)
            pending = self._transport.start_native(parcel.x.flat, lane.recipe.exchange, lane.group.outer, entry)

        def job() -> None:
            if self._failure is not None:
                return
            try:
                if pending is None:
                    cross(lane, parcel, at, self._transport)
                else:
                    self.ledger.produced(parcel.x.flat.nbytes)
                    pending.wait(self.settings.exchange_timeout_s)
            except BaseException as error:  # told to DDP by the answers, and by the next call
                self._failure = error

        self.link.submit(self._side.job(job))

    def _answer(self, handed: _Handed) -> None:
        @torch.no_grad()
        def job() -> None:
            try:
                for name, gradient in zip(handed.names, handed.gradients, strict=True):
                    gradient.copy_(self._queue[self._where[name]][1].x[name])
            except BaseException as error:  # DDP must be answered, or it waits for ever
                self._failure = self._failure or error
            handed.future.set_result(handed.buffer)

        self.link.submit(self._side.job(job))

    def _handed_back(self, future: Future[Tensor]) -> Tensor:
        if self._failure is not None:
            raise self._failure  # in here, because DDP would take a future's own exception for a tensor
        return future.value()

    def _tick(self) -> None:
        self.ledger.stepped(sum(t.numel() * t.element_size() for t in self._tensors.values()))
        self.link.submit(partial(self._tell, self.clock))
        self.clock += 1
        self._stale = self.clock in changes_at(self.recipe)

    def _tell(self, clock: int) -> None:
        """The last job of a step: its bytes are known."""
        moved = {"tx_bytes": self.ledger.tx_bytes, "rx_bytes": self.ledger.rx_bytes}
        self.settings.events.take(event.Stepped(rank=self.link.world.rank, step=clock, loss=None, **moved))

    def at(self) -> At:
        """Now."""
        rate = float(self._optimizer.param_groups[0]["lr"]) if self._optimizer else 0.0
        return At(self.clock, self.epochs, rate, self.link.world, self.settings.seed)

    # ── what the recipe is now ────────────────────────────────────────────────────────────────────────────────────

    def _refresh(self) -> None:
        """Lay out the lanes of the phase that holds now, unless they are."""
        if not self._stale or not self._tensors:
            return
        self._stale = False
        self.lanes = lay_out(self.recipe, self._tensors, self.link.world, self.clock, self.lanes)
        for lane in self.lanes:
            if lane.leaf.inner is not None and lane.recipe.exchange.native:
                self.link.prepare(lane.group.outer)
        self._direct = all(lane.plain and lane.leaf.inner is None for lane in self.lanes)
        place = {name: index for index, name in enumerate(self._tensors)}
        parcels = [(lane, parcel) for lane in self.lanes for parcel in lane.parcels]
        self._queue = sorted(parcels, key=lambda entry: -min(place[name] for name in entry[1].tensors))
        self._where = {name: index for index, (_, parcel) in enumerate(self._queue) for name in parcel.tensors}
        for lane, parcel in self._queue if self._saved else ():
            restore_parcel(lane, parcel, self._saved, len(self._saved) != self.link.world.size)
        self._saved = []

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state_dict(self) -> dict[str, Any]:
        """What this rank must keep beside model and optimizer: memories, codecs, clock, ledger; by tensor name."""
        self._refresh()
        return {
            "recipe": _described(self.recipe),
            "workers": self.link.world.size,
            "clock": self.clock,
            "epochs": self.epochs,
            "lanes": _copied(lanes_state(self.lanes)),
            "ledger": self.ledger.state(),
        }

    def load_state_dict(self, states: dict[str, Any] | Sequence[dict[str, Any]]) -> None:
        """Go on from this rank's state, or from those of all ranks of any world, in rank order."""
        size, rank = self.link.world.size, self.link.world.rank
        every = [states] * size if isinstance(states, dict) else list(states)
        if every[0]["recipe"] != _described(self.recipe):
            raise CheckpointError(f"the state is of {every[0]['recipe']}, this hook runs {_described(self.recipe)}")
        if every[0]["workers"] != len(every):
            raise CheckpointError(
                f"the state is one of {every[0]['workers']} ranks and there are now {size}; give load_state_dict the "
                "states of all of them, in rank order"
            )
        mine = every[rank % len(every)]
        self.clock, self.epochs = mine["clock"], mine["epochs"]
        if len(every) == size:
            self.ledger.restore(mine["ledger"])
        self.lanes, self._saved, self._stale = [], every, True
        self._refresh()

    def close(self) -> None:
        """Let go of thread and process groups, where the script goes on after training."""
        if self._capture is not None:
            self._capture.remove()
        self.link.close()


def _described(recipe: AnyRecipe) -> str:
    return describe(recipe, without=frozenset({"grain"}))


def _copied(tree: Any) -> Any:
    if isinstance(tree, Tensor):
        return tree.detach().clone()
    return {key: _copied(inside) for key, inside in tree.items()}
