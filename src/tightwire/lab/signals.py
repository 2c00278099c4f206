"""Signals that end a process, made to pass through the ``with`` blocks that clean up.

Ctrl-C does so by itself (`KeyboardInterrupt`). SIGTERM and SIGHUP end a Python process on the spot unless somebody
handles them; while a lab is open they raise `SystemExit` instead. Handlers of the user's own are left in place.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_DEADLY = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def unwinding() -> Iterator[None]:
    """SIGTERM and SIGHUP raise `SystemExit` with a shell's status for them. Only the main thread can arrange that."""
    ours = []
    if threading.current_thread() is threading.main_thread():
        ours = [number for number in _DEADLY if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _unwind)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Put off signals that would tear what is done here; they are raised again at its end."""
    came: list[int] = []
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {n: h for n in (*_DEADLY, signal.SIGINT) if (h := signal.getsignal(n)) is not None}
    for number in before:
        signal.signal(number, lambda caught, frame: came.append(caught))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for caught in came:
            signal.raise_signal(caught)


def _unwind(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
