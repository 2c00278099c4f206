"""`ip` and `tc`, and work done inside a namespace: all that the lab asks of the kernel."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from tightwire.lab.enter import enter, leave_network
from tightwire.lab.errors import LabError
from tightwire.lab.names import NAMESPACES

T = TypeVar("T")
_TIMEOUT_S = 30.0


def ip(*arguments: str) -> str:
    """Run ``ip``."""
    return call(["ip", *arguments])


def batch(tool: str, namespace: str, lines: Sequence[str]) -> None:
    """Run lines of ``ip`` or ``tc`` in a namespace, in one process."""
    call([tool, "-n", namespace, "-batch", "-"], "".join(f"{line}\n" for line in lines))


def call(command: Sequence[str], lines: str = "") -> str:
    """Run a tool to its end and return what it said; its complaint becomes the error.

    In a session of its own, since a Ctrl-C must not tear the removal of a lab.
    """
    try:
        done = subprocess.run(
            command,
            input=lines,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise LabError(f"{command[0]} is not installed; install iproute2") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"`{' '.join(command)}` did not end within {_TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        asked = lines.strip().replace("\n", "; ")
        raise LabError(f"`{' '.join(command)}`{f' ({asked})' if asked else ''} failed: {' '.join(done.stderr.split())}")
    return done.stdout


def inside(namespace: str, work: Callable[[], T]) -> T:
    """Do ``work`` in a namespace: in a thread that moves there, and ends there."""
    return _elsewhere(lambda: enter(str(NAMESPACES / namespace)), work)


def in_empty_namespace(work: Callable[[], T]) -> T:
    """Do ``work`` in a network namespace without a name, which ends with it."""
    return _elsewhere(leave_network, work)


def _elsewhere(move: Callable[[], None], work: Callable[[], T]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []

    def live() -> None:
        try:
            move()
            results.append(work())
        except BaseException as error:  # carried to the caller
            errors.append(error)

    thread = threading.Thread(target=live, name="tightwire-lab")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
