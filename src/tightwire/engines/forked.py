"""Workers forked from a process that has torch loaded: four of them in a fifth of a second instead of ten."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tightwire.engines.leash import VARIABLE, leash

_PRELOAD = ["torch._dynamo", "tightwire.engines.worker"]  # what every worker would import, imported once
_POLL_S = 0.05
_LAST_WORDS_S = 30.0  # after one worker failed, how long the others may take to notice and say whom they miss


def preload(*, now: bool = False) -> None:
    """Have the fork server load what workers need: with the first of them, or now, beside what else is done."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(_PRELOAD)
    if now:
        forkserver.ensure_running()


def fork(work: Callable[..., None], *args: Any, env: Mapping[str, str], log: Path) -> BaseProcess:
    """Start ``work(*args)`` in a process of its own, with variables and a file for what it prints."""
    told = {**env, VARIABLE: leash()}
    process = multiprocessing.get_context("forkserver").Process(target=_live, args=(work, args, told, str(log)))
    process.start()
    return process


def _live(work: Callable[..., None], args: tuple[Any, ...], env: dict[str, str], log: str) -> None:
    os.environ.update(env)
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout = sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115 -- lives as long as the process
    work(*args)


def wait(started: Sequence[BaseProcess]) -> None:
    """Wait for all; when one fails, the others get time to say why, then end."""
    deadline: float | None = None
    try:
        while any(process.is_alive() for process in started):
            if deadline is None and any(process.exitcode not in (None, 0) for process in started):
                deadline = time.monotonic() + _LAST_WORDS_S
            if deadline is not None and time.monotonic() > deadline:
                return
            time.sleep(_POLL_S)
    finally:
        for process in started:
            if process.is_alive():
                process.kill()
            process.join()
