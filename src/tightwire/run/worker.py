"""The one loop. It executes any recipe over any link; there is no second one.

    backward()   hooks put gradients into buckets and launch those that are complete      (run.hooks)
    step()   1   gradients: wait for what was exchanged; `p.grad` is now the weighed sum   (run.conduct)
             2   your optimizer steps, on exchanged or on its own gradients                (run.seat)
             3   local recipes that are due: fill, exchange, move the centre, adopt it     (run.lane)
             4   gradients are cleared, the clock ticks, a new phase may begin

Recipes that exchange before the local step take part 3 before 2, and send already when the step before has ended, so
that their exchange runs beside the whole forward and backward pass.

A server takes the place of the exchange in 1 and 3: push, and adopt the centre that comes back (run.serve); so does a
centre in one memory (run.commons).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from tightwire.algebra.link import Link, Pending
from tightwire.algebra.recipe import AnyRecipe, changes_at
from tightwire.algebra.schedule import Due
from tightwire.algebra.world import At
from tightwire.links.rounds import ended
from tightwire.rules.yours import Yours
from tightwire.run.amp import Scaling
from tightwire.run.assembly import Assembly
from tightwire.run.commons import Commons
from tightwire.run.conduct import crossing
from tightwire.run.handing import hand_out
from tightwire.run.hooks import Launcher
from tightwire.run.lane import Lane, lay_out
from tightwire.run.parcel import Parcel
from tightwire.run.parting import part_from_servers
from tightwire.run.seat import step_seat
from tightwire.run.serve import Client
from tightwire.run.settings import Settings
from tightwire.run.shared import share_weights, take_own_copies
from tightwire.run.streams import Side
from tightwire.run.transport import Entry, Transport
from tightwire.run.unused import Watch
from tightwire.telemetry import event
from tightwire.telemetry.ledger import Ledger


class Worker:
    """One worker of a run: its lanes, its clock, its ledger."""

    def __init__(
        self,
        recipe: AnyRecipe,
        tensors: Mapping[str, nn.Parameter],
        optimizer: torch.optim.Optimizer,
        link: Link,
        settings: Settings,
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        self.recipe = recipe
        self.tensors = dict(tensors)
        self.optimizer = optimizer
        self.link = link
        self.settings = settings
        self.ledger = Ledger()
        self.transport = Transport(link, self.ledger, settings.exchange_timeout_s)
        self.clock = 0
        self.epochs: float | None = None
        self.batch_weight = 1.0  # of this worker's batch, relative to the mean over workers
        self.assembly = Assembly(self.transport, self._step_aside)
        self.scaling = Scaling(scaler, self.assembly)
        self.watch = Watch(settings.unused, self.assembly)
        self._side = Side(next(iter(self.tensors.values())).device)
        self._dense_nbytes = sum(t.numel() * t.element_size() for t in self.tensors.values())
        self._pending: dict[str, tuple[Pending, float]] = {}  # what is on its way, and how long it may take
        self._exchanged = False
        self.clips = False
        self.lanes: list[Lane] = []
        self.launcher: Launcher | None = None
        self.clients: dict[str, Client | Commons] = {}
        self.counts: Counter[str] = Counter()  # this worker's part of the numbers that all share
        self.in_one_memory: set[str] = set()  # lanes whose weights all workers share

    # ── what the recipe is now ────────────────────────────────────────────────────────────────────────────────────

    def build(self) -> None:
        """Lay out the lanes of the phase that holds now; lanes that stay as they were keep their state."""
        self.lanes = lay_out(self.recipe, self.tensors, self.link.world, self.clock, self.lanes)
        for lane in self.lanes:
            if lane.leaf.inner is not None and lane.recipe.exchange.native:
                self.link.prepare(lane.group.outer)
        if self.launcher is not None:
            self.launcher.remove()
        self.launcher = Launcher(self.lanes, self._launch, list(self.tensors), lambda: self.batch_weight)
        self._direct = all(lane.plain and lane.leaf.inner is None for lane in self.lanes if lane.early)
        self._observing = True
        self._meet_servers()
        share_weights(self)

    def _meet_servers(self) -> None:
        known = {id(client.lane): client for client in self.clients.values()}
        self.clients = {}
        for lane in self.lanes:
            if lane.recipe.exchange.pattern in ("server", "memory"):
                client = known.get(id(lane))
                if client is None:
                    client = self._client_of(lane)
                    client.enter(self.at())
                self.clients[lane.label] = client

    def _client_of(self, lane: Lane) -> Client | Commons:
        phase = sum(step <= self.clock for step in changes_at(self.recipe))
        if lane.recipe.exchange.pattern == "memory":
            return Commons(lane, self.link, self.assembly, self.optimizer, phase)
        timeout_s, number = self.settings.step_timeout_s, self.lanes.index(lane)
        return Client(lane, self.transport, self.optimizer, timeout_s, phase, number=number)

    def at(self) -> At:
        """Now."""
        rate = float(self.optimizer.param_groups[0]["lr"])
        return At(self.clock, self.epochs, rate, self.link.world, self.settings.seed)

    def due(self, lane: Lane) -> Due:
        """What a lane does at this step."""
        return lane.recipe.schedule.due(self.clock)

    # ── 1: gradients ──────────────────────────────────────────────────────────────────────────────────────────────

    def _launch(self, lane: Lane, parcel: Parcel) -> None:
        """A bucket is complete: send it off. Called in bucket order, from the backward pass or from `step`."""
        self.emit(event.Ready, bucket=parcel.label)
        parcel.pay_debts()
        if not lane.collective:
            if lane.label in self.clients and self.due(lane).push:
                self.clients[lane.label].ready(parcel)
            return
        pending = None
        if self._direct:
            entry = Entry("exchange", parcel.label)
            pending = self.transport.start_native(parcel.x.flat, lane.recipe.exchange, lane.group.outer, entry)
        if pending is not None:
            self.ledger.produced(parcel.x.flat.nbytes)
            self.emit(event.Started, bucket=parcel.label)
            self._pending[parcel.label] = (pending, self.settings.exchange_timeout_s)
        else:
            self._pending[parcel.label] = (self._submit(lane, parcel), self.settings.step_timeout_s)

    def _submit(self, lane: Lane, parcel: Parcel) -> Pending:
        at = self.at()

        def steps() -> Generator[None, None, None]:
            self.emit(event.Started, bucket=parcel.label)
            yield from crossing(lane, parcel, at, self.transport)
            self.emit(event.Finished, bucket=parcel.label)

        crosses = steps()
        first = partial(next, crosses, None) if lane.begins_here(parcel) else None
        return self.link.submit(self._side.job(partial(ended, crosses)), first=first)

    def exchange_gradients(self, *, at_once: bool = False) -> None:
        """Finish the exchange of gradients: afterwards `p.grad` is the weighed sum over workers.

        ``at_once`` promises that the optimizer steps before anybody looks, so gradients may be sparse.
        """
        if self._exchanged:
            return
        assert self.launcher is not None
        self._exchanged = True
        unseen = self.launcher.unseen()
        unused = self.watch.unused_everywhere(unseen, self.lanes, first=self._observing)
        for lane, parcel in self.launcher.finish():
            if parcel.label in self._pending:
                self._await(parcel)
                plain = at_once and isinstance(lane.seat, Yours) and not self.scaling.enabled
                hand_out(parcel, unused, self.optimizer, at_once=plain)
        for lane in self.lanes:
            if lane.early and lane.label in self.clients:
                self.clients[lane.label].meet(self.due(lane), self.at(), unseen)

    def _await(self, parcel: Parcel) -> None:
        pending, timeout_s = self._pending.pop(parcel.label)
        pending.wait(timeout_s)
        self._side.join()

    # ── the step ──────────────────────────────────────────────────────────────────────────────────────────────────

    def step(self, loss: Tensor | float | None = None) -> None:
        """Exchange, optimize, exchange what is sent after the local step, clear, tick; only then is the loss read."""
        if not self._exchanged and self.scaling.overflowed(self.tensors.values(), self.shares_gradients()):
            self.emit(event.Skipped, reason="a gradient overflowed on some rank; the loss scale is lowered")
        else:
            self.scaling.unscale(self.optimizer)
            self.exchange_gradients(at_once=True)
        self._exchange_weights(before_local=True)  # also by a rank that skips: the others wait for its weights
        step_seat(self.optimizer, self.lanes, self.scaling, self.at())
        self._exchange_weights(before_local=False)
        for tensor in self.tensors.values():
            tensor.grad = None
        self.ledger.stepped(self._dense_nbytes)
        loss = loss if loss is None else float(loss)
        self.emit(event.Stepped, loss=loss, tx_bytes=self.ledger.tx_bytes, rx_bytes=self.ledger.rx_bytes)
        self._tick()

    def shares_gradients(self) -> bool:
        """Whether what one rank computes reaches the others before the optimizer steps."""
        return any(lane.early and lane.collective for lane in self.lanes)

    def _exchange_weights(self, *, before_local: bool) -> None:
        """3: local recipes that are due."""
        for lane in self.lanes:
            due = self.due(lane)
            if lane.early or due.before_local != before_local or not (due.push or due.pull):
                continue
            if lane.label in self.clients:
                self.clients[lane.label].meet(due, self.at())
            else:
                self.average(lane)

    def average(self, lane: Lane) -> None:
        """One exchange of a lane that sends its weights, or where they are."""
        self._send_weights(lane)
        for parcel in lane.parcels:
            self._await(parcel)
            lane.adopt(parcel, self.at())
        if lane.recipe.adopt.momentum == "reset":
            for tensor in lane.tensors.values():
                self.optimizer.state.pop(tensor, None)

    def _send_weights(self, lane: Lane) -> None:
        for parcel in lane.parcels:
            if parcel.label not in self._pending:
                lane.fill(parcel)
                parcel.pay_debts()
                self._pending[parcel.label] = (self._submit(lane, parcel), self.settings.step_timeout_s)

    def send_ahead(self) -> None:
        """Send what the next step will exchange before its local move, where that is known now."""
        for lane in self.lanes:
            due = self.due(lane)
            if due.push and due.before_local and lane.sends_ahead:
                self._send_weights(lane)

    def _tick(self) -> None:
        assert self.launcher is not None
        self.clock += 1
        self._exchanged = False
        self._observing = False
        self.launcher.reset()
        self.launcher.overlap = not self.scaling.enabled and not (
            self.clips and any(lane.clips_first for lane in self.lanes)
        )
        if self.clock in changes_at(self.recipe):
            self.settle(self.lanes)
            part_from_servers(self)
            take_own_copies(self)
            self.build()
            self.emit(event.Switched, recipe=" + ".join(lane.recipe.name for lane in self.lanes))
        self.send_ahead()

    def settle(self, lanes: Iterable[Lane]) -> None:
        """Bring workers that ran apart together: a phase, and a run, ends with everybody's steps in the answer."""
        for lane in lanes:
            exchanged = self.clock > 0 and lane.recipe.schedule.due(self.clock - 1).push
            if lane.early or exchanged:
                continue
            if lane.collective:
                self.average(lane)
            elif lane.label in self.clients:
                self.clients[lane.label].meet(Due(push=True, pull=True), self.at())

    # ── odds and ends ─────────────────────────────────────────────────────────────────────────────────────────────

    def emit(self, kind: type[event.Event], **fields: object) -> None:
        """Tell the sink."""
        self.settings.events.take(kind(rank=self.link.world.rank, step=self.clock, **fields))  # type: ignore[arg-type]

    def note(self, text: str) -> None:
        """Tell a person."""
        self.emit(event.Noted, text=text)

    def _step_aside(self) -> None:
        """No server lets others wait for a worker that itself waits for all of them."""
        for client in self.clients.values():
            client.rest()

    def finish(self) -> None:
        """Wait for what a backward pass without step() left on its way, so that no rank is left waiting."""
        for pending, timeout_s in self._pending.values():
            pending.wait(timeout_s)
        self._pending.clear()

    def close(self, *, leave: bool) -> None:
        """Take the hooks off; after a clean end also tell the servers, so that nobody waits for this worker."""
        if self.launcher is not None:
            self.launcher.remove()
        for client in self.clients.values() if leave else ():
            client.leave()
