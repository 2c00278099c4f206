"""Ending processes that the lab started, and no others.

Every one leads a process group of its own, so what it started ends with it. What left the group is found by two marks
that nobody has by chance: it lives in a namespace of the lab, and its environment carries that namespace's name.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from tightwire.lab.names import NAMESPACES

NAMESPACE_VARIABLE = "TIGHTWIRE_NAMESPACE"
"""Set in every process of a lab, to the name of its namespace."""


def end(processes: Sequence[subprocess.Popen[bytes]], *, grace_s: float, first: int = signal.SIGTERM) -> None:
    """Ask all of them to end, wait, then make them."""
    running = [p for p in processes if p.poll() is None]
    for process in running:
        _signal(process, first)
    deadline = time.monotonic() + grace_s
    for process in running:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
    for process in running:
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    if process.poll() is None:  # not waited for, so the number of its group cannot have been given to another
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def kill_inhabitants(namespaces: Collection[str]) -> None:
    """Kill what still lives in these namespaces and was started by the lab, itself or by what it started."""
    for pid in _inhabitants(namespaces):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _inhabitants(namespaces: Collection[str]) -> list[int]:
    homes: dict[int, bytes] = {}
    for name in namespaces:
        with suppress(FileNotFoundError):
            homes[(NAMESPACES / name).stat().st_ino] = f"{NAMESPACE_VARIABLE}={name}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            mark = homes.get((entry / "ns" / "net").stat().st_ino)
            if mark is not None and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found
