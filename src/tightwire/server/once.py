"""Every request applied once, however often it comes: a session for each worker around any machine without I/O.

    Request(worker, life, number, event)      newer than the last    ─▶ the machine handles it
                                              the last, answered     ─▶ answered again, not handled again
                                              the last, unanswered   ─▶ nothing: its reply is still to come
                                              older                  ─▶ nothing: nobody waits for it any more

A worker has one request open at a time, so one number and one reply are all that must be remembered of it. ``life`` is
larger for a worker that was started anew. A reply carries the number of its request, so that one that comes late is not
taken for another. (A client that retries with the same number, a server that filters: Birrell and Nelson 1984.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from tightwire.algebra.link import Machine

Standing = Literal["new", "open", "answered", "old"]


class Request(NamedTuple):
    """An event of a worker, numbered. ``event`` None asks again for the reply to one that the server has."""

    worker: int
    life: int
    number: int
    event: Any = None


class Response(NamedTuple):
    """The reply to one request."""

    worker: int
    life: int
    number: int
    reply: Any


class Unknown(NamedTuple):
    """A reply was asked for again, and the server never had the request: send all of it."""

    worker: int


@runtime_checkable
class Repeats(Protocol):
    """A machine that can make a reply again from less than the reply itself."""

    def brief(self, reply: Any) -> Any:
        """What to remember of a reply."""
        ...

    def again(self, worker: int, brief: Any) -> Any:
        """The reply to the worker's last request again, as good as it was."""
        ...


class Session(NamedTuple):
    """A worker's last request and what is remembered of its reply."""

    life: int
    number: int
    answered: bool = False
    kept: Any = None


@dataclass
class Once:
    """A machine that handles requests. A request that the machine refuses (raises) leaves no trace."""

    machine: Machine
    sessions: dict[int, Session] = field(default_factory=dict)
    repeats: Repeats | None = field(init=False)

    def __post_init__(self) -> None:
        """Look once whether the machine can repeat itself."""
        self.repeats = self.machine if isinstance(self.machine, Repeats) else None

    def handle(self, request: Request) -> list[tuple[int, Response | Unknown]]:
        """Hand on what is new; answer again what was answered."""
        worker = request.worker
        match self.standing(request):
            case "old" | "open":
                return []
            case "answered":
                last = self.sessions[worker]
                return [(worker, Response(worker, last.life, last.number, self._again(worker, last.kept)))]
        if request.event is None:
            return [(worker, Unknown(worker))]
        replies = self.machine.handle(request.event)
        self.sessions[worker] = Session(request.life, request.number)
        return [(to, self._answer(to, reply)) for to, reply in replies if to in self.sessions]

    def standing(self, request: Request) -> Standing:
        """What a request is to this server."""
        last = self.sessions.get(request.worker)
        if last is None or (request.life, request.number) > (last.life, last.number):
            return "new"
        if (request.life, request.number) < (last.life, last.number):
            return "old"
        return "answered" if last.answered else "open"

    def _answer(self, worker: int, reply: Any) -> Response:
        last = self.sessions[worker]
        kept = reply if self.repeats is None else self.repeats.brief(reply)
        self.sessions[worker] = last._replace(answered=True, kept=kept)
        return Response(worker, last.life, last.number, reply)

    def _again(self, worker: int, kept: Any) -> Any:
        return kept if self.repeats is None else self.repeats.again(worker, kept)
