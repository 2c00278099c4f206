"""P workers in this process: `together(4, train)` calls ``train(rank)`` once for each, deterministically.

    >>> import tightwire as tw
    >>> together(3, lambda rank: rank * rank)
    [0, 1, 4]

Inside, `join` finds the in-process link by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from tightwire.algebra.link import Link
from tightwire.links.loop import Earliest, LoopLink, LoopWorld, Order, in_turn

T = TypeVar("T")
_here: ContextVar[Link | None] = ContextVar("tightwire_link", default=None)


def current_link() -> Link | None:
    """The in-process link of the worker that runs now."""
    return _here.get()


def spend(seconds: float) -> None:
    """Pretend that the worker that runs now computed for so long; outside `together` nothing happens."""
    here = _here.get()
    if isinstance(here, LoopLink):
        here.spend(seconds)


def now() -> float | None:
    """The pretended time of the worker that runs now, in seconds; None outside `together`."""
    here = _here.get()
    return here.now if isinstance(here, LoopLink) else None


def earliest() -> Earliest:
    """An order for `together`: whoever's pretended time is earliest runs next."""
    return Earliest()


def together(workers: int, work: Callable[[int], T], *, hosts: tuple[int, ...] = (), order: Order = in_turn) -> list[T]:
    """Run ``work(rank)`` for every rank of an in-process world; return what each returned.

    ``hosts[r]`` is the (pretended) machine of rank r; ``order`` decides interleavings (`links.loop.shuffled`).
    """

    def live(link: LoopLink) -> T:
        _here.set(link)
        return work(link.world.rank)

    return LoopWorld(workers, hosts=hosts, order=order).run(live)
