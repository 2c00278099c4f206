"""One server's copy of a machine in a chain of servers: a state machine without I/O.

    worker ──Request──▶ head     1. the head gives it the next place and applies it
                                 2. and forwards it; every member applies entries in the order of their places
                        tail     3. the tail holds it: so do all, and acknowledgements run back
    worker ◀─Response── head     4. the head sends every reply that was made at or before an acknowledged place

The machine is deterministic, so equal entries make equal copies. In a new view every member tells the one before it how
far it has come (`Have`) and is given the rest (`Sync`): the entries that were not acknowledged yet, or everything if it
is new. A member that is left out forgets all and offers itself anew, under another life. One that others have overtaken
may hold entries that they do not: it takes the whole state, and does nothing before that. Until then it keeps what it
has, because nothing is acknowledged without it, and it has all that was.

Chain replication: van Renesse and Schneider, OSDI 2004. Who is in the chain is decided elsewhere (`server.views`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tightwire.server.chain import Ack, Beat, Buried, Elsewhere, Forward, Go, Have, Member, Sync, View
from tightwire.server.once import Once, Request, Response, Unknown

VIEWS = "views"
Effects = list[tuple[str | int, Any]]  # to a server by name, to the views, to a worker by number

NOBODY = View("", 0, ())
_BLANK = -1
_REST = 5


@dataclass
class Replica:
    """A member of a chain, or a spare. ``copy`` and ``revive`` turn the machine into plain values and back."""

    shard: str
    me: Member
    copy: Callable[[Once], Any]
    revive: Callable[[Any], Once]
    machine: Once | None = None
    view: View = NOBODY
    index: int = _BLANK  # of the last entry applied
    acknowledged: int = _BLANK  # everybody behind holds what is up to here
    caught_up: int = 0  # the last view in which this member had all it needs
    stands: bool = False  # whether the view is final; nothing is done in one that is not
    ahead: frozenset[Member] = frozenset()  # those before it in the last view that stood: they have no less
    overtaken: bool = False
    rest: int = 0  # ticks until the whole state is copied again for the one behind: it is large, and may be on its way
    longer: int = _REST
    log: dict[int, Request] = field(default_factory=dict)  # applied, not yet acknowledged
    unsent: list[tuple[int, Response | Unknown]] = field(default_factory=list)  # the head's replies, by index

    def found(self, machine: Once) -> None:
        """Be the first to hold the machine. To be called on the one member of the first view, before it is formed."""
        self.machine, self.index, self.acknowledged = machine, 0, 0

    def handle(self, message: Any) -> Effects:
        """React to one message."""
        match message:
            case Request():
                return self._request(message)
            case Forward(view) | Ack(view) | Have(view) | Sync(view):
                return self._hear(message) if view == self.view.number and self.stands else []
            case View(_, number):
                return self._enter(message) if number > self.view.number else []
            case Go(_, number):
                return self._go() if number == self.view.number and not self.stands else []
            case Buried(_, member):
                return self._forget() if member == self.me else []
        raise AssertionError(f"a replica was told {message!r}")

    def tick(self) -> Effects:
        """Say again what may have been lost; called every now and then."""
        effects: Effects = [self.beat()]
        self.rest = max(0, self.rest - 1)
        if not self.stands:
            return effects
        if not self._is_caught_up():
            effects += self._have()
        if self.overtaken:
            return effects
        if (after := self._after()) is not None:
            effects += [(after, Forward(self.view.number, index, entry)) for index, entry in self.log.items()]
            if self.acknowledged < self.index and self.acknowledged + 1 not in self.log:
                effects.append((after, Sync(self.view.number, self.index)))  # a state came in between: is it there too?
        return effects

    # ── the place in the chain ────────────────────────────────────────────────────────────────────────────────────

    @property
    def leads(self) -> bool:
        """Whether this is the head, as far as it knows."""
        return bool(self.view.chain) and self.view.chain[0] == self.me and self.machine is not None

    @property
    def needed(self) -> bool:
        """Whether others may still want what is here: a view without this member may never stand, until it is said."""
        return self.machine is not None or self.me in self.view.chain

    def _before(self) -> str | None:
        chain = self.view.chain
        place = chain.index(self.me) if self.me in chain else 0
        return chain[place - 1].server if place else None

    def _after(self) -> str | None:
        chain = self.view.chain
        place = chain.index(self.me) + 1 if self.me in chain else len(chain)
        return chain[place].server if place < len(chain) else None

    def _is_caught_up(self) -> bool:
        return self.machine is not None and self.caught_up == self.view.number

    def _hear(self, message: Forward | Ack | Have | Sync) -> Effects:
        if self.overtaken and not (isinstance(message, Sync) and message.state is not None):
            return []
        match message:
            case Forward(_, index, request):
                return self._forward(index, request)
            case Ack(_, index):
                return self._ack(index)
            case Have(_, index):
                return self._help(index)
            case Sync():
                return self._catch_up(message)

    # ── entries ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _request(self, request: Request) -> Effects:
        if not (self.leads and self.stands):
            return [(request.worker, Elsewhere(request.worker, self.view.number))]
        assert self.machine is not None
        match self.machine.standing(request):
            case "old" | "open":
                return []  # nobody waits for it, or the reply is still to come
            case "answered":  # the chain has it: no need to carry it there again
                return [] if self._is_answering(request) else self._apply(request._replace(event=None))
        if request.event is None:
            return [(request.worker, Unknown(request.worker))]
        return self._apply(request)

    def _is_answering(self, request: Request) -> bool:
        asked = (request.worker, request.life, request.number)
        return any(reply[:3] == asked for _, reply in self.unsent)

    def _apply(self, request: Request) -> Effects:
        """Apply the next entry and pass it on; the tail's word is the last one."""
        assert self.machine is not None
        replies = self.machine.handle(request)  # may refuse it, and then nothing has happened
        self.index += 1
        if self.view.chain[0] == self.me:
            self.unsent += [(self.index, reply) for _, reply in replies]
        after = self._after()
        if after is None:
            return self._ack(self.index)
        self.log[self.index] = request
        return [(after, Forward(self.view.number, self.index, request))]

    def _forward(self, index: int, request: Request) -> Effects:
        if self.machine is not None and index == self.index + 1:
            return self._apply(request)
        if index <= self.acknowledged:
            return self._tell_before()  # the acknowledgement was lost
        return []  # out of order, or under way: it comes again

    def _ack(self, index: int) -> Effects:
        """Everybody behind holds everything up to ``index``."""
        if index <= self.acknowledged:
            return []
        self.acknowledged = index
        for old in [i for i in self.log if i <= index]:
            del self.log[old]
        return self._tell_before() + self._answer()

    def _answer(self) -> Effects:
        """The head's word to workers, once it is true whatever happens."""
        ready = [reply for made, reply in self.unsent if made <= self.acknowledged]
        self.unsent = [entry for entry in self.unsent if entry[0] > self.acknowledged]
        return [(reply.worker, reply) for reply in ready]

    def _tell_before(self) -> Effects:
        before = self._before()
        return [] if before is None else [(before, Ack(self.view.number, self.acknowledged))]

    # ── views ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _enter(self, view: View) -> Effects:
        """Another view: what it makes of this server depends on its place."""
        self.view, self.stands = view, False
        self.rest, self.longer = 0, _REST
        return [self.beat()] if self.me in view.chain else []  # else a spare, or left out: then that is said

    def _go(self) -> Effects:
        """The view is final: everybody in it looks whether it has all that those before it have."""
        if self.me not in self.view.chain:
            return []
        self.stands = True
        before = frozenset(self.view.chain[: self.view.chain.index(self.me)])
        self.overtaken = self.machine is not None and bool(before) and (self.overtaken or not before <= self.ahead)
        self.ahead = before
        if before:
            self.unsent = []  # those workers ask the new head
            return self._have()
        self.caught_up = self.view.number
        return self._ack(self.index) if self._after() is None else []

    def beat(self) -> tuple[str, Beat]:
        """A sign of life, to the views."""
        return VIEWS, Beat(self.shard, self.me, self.view.number, self.stands, self._is_caught_up())

    def _have(self) -> Effects:
        before = self._before()
        assert before is not None
        return [(before, Have(self.view.number, _BLANK if self.overtaken else self.index))]

    def _help(self, index: int) -> Effects:
        """Give the one behind what it lacks."""
        after = self._after()
        if self.machine is None or after is None:
            return []
        missing = range(index + 1, self.index + 1)
        if index != _BLANK and all(i in self.log for i in missing):
            return [(after, Sync(self.view.number, index, tuple(self.log[i] for i in missing)))]
        if self.rest:
            return []
        self.rest, self.longer = self.longer, 2 * self.longer
        return [(after, Sync(self.view.number, self.index, state=self.copy(self.machine)))]

    def _catch_up(self, sync: Sync) -> Effects:
        """Take what the one before has more than this one; an answer of long ago sets nobody back."""
        effects: Effects = []
        if sync.state is not None and (self.overtaken or sync.place > self.index):
            self.machine, self.index, self.log = self.revive(sync.state), sync.place, {}
            self.overtaken = False
        for index, request in enumerate(sync.entries, sync.place + 1):
            if index == self.index + 1:
                effects += self._apply(request)
        if self.machine is None or self.index < sync.place:
            return effects + self._have()
        self.caught_up = self.view.number
        acknowledged = self._ack(self.index) if self._after() is None else []
        return effects + (acknowledged or self._tell_before())

    def _forget(self) -> Effects:
        """Left out: what this server knows may be wrong by now. It offers itself anew."""
        self.me = self.me._replace(life=self.me.life + 1)
        self.machine, self.index, self.acknowledged, self.caught_up = None, _BLANK, _BLANK, 0
        self.log, self.unsent, self.stands, self.overtaken = {}, [], False, False
        return []
