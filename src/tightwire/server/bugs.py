"""Mistakes made on purpose, to see that the simulator finds them: a tool that never complains proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tightwire.server.chain import Go, Have, Sync, View
from tightwire.server.once import Request
from tightwire.server.replica import Effects, Replica

Bug = Callable[[Replica, Any], Effects]


def acknowledge_first(replica: Replica, message: Any) -> Effects:
    """The head answers before the others hold it."""
    effects = replica.handle(message)
    early, replica.unsent = replica.unsent, []
    return effects + [(reply.worker, reply) for _, reply in early]


def forget_numbers(replica: Replica, message: Any) -> Effects:
    """A repeated request is taken for a new one."""
    if isinstance(message, Request) and message.event is not None and replica.machine is not None:
        replica.machine.sessions.clear()
    return replica.handle(message)


def answer_repeats(replica: Replica, message: Any) -> Effects:
    """The head answers who asks again by itself, whether or not the others hold it."""
    once = replica.machine if replica.leads else None
    if isinstance(message, Request) and once is not None and once.standing(message) == "answered":
        return [*once.handle(message)]
    return replica.handle(message)


def go_at_once(replica: Replica, message: Any) -> Effects:
    """A view is obeyed before it is known that it stands."""
    effects = replica.handle(message)
    if isinstance(message, View) and message == replica.view:
        effects += replica.handle(Go(message.shard, message.number))
    return effects


def skip_the_log(replica: Replica, message: Any) -> Effects:
    """Who lost its successor does not pass on again what may have been lost with it."""
    if isinstance(message, View) and message.number > replica.view.number:
        replica.log.clear()
    if isinstance(message, Have) and replica.machine is not None and message.place >= 0:
        behind = replica.view.chain[-1].server
        return [(behind, Sync(replica.view.number, message.place))]
    return replica.handle(message)


def stay_ahead(replica: Replica, message: Any) -> Effects:
    """Who was overtaken keeps what it has, and goes on from there."""
    effects = replica.handle(message)
    if replica.overtaken:
        replica.overtaken = False
        effects = [(to, Have(replica.view.number, replica.index)) for to, said in effects if isinstance(said, Have)]
    return effects


BUGS: dict[str, Bug] = {
    made.__name__.replace("_", "-"): made
    for made in (acknowledge_first, forget_numbers, answer_repeats, go_at_once, skip_the_log, stay_ahead)
}
