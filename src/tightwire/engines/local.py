"""Workers as processes of this machine, started and restarted by torch elastic.

A worker that dies takes its group down; all start anew from the last checkpoint and end as if nothing had happened.
Ctrl-C asks them to save and stop; a second one ends them at once.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from tightwire.engines.config import RunConfig
from tightwire.engines.forked import preload
from tightwire.engines.leash import VARIABLE, leash
from tightwire.engines.outcome import failures, stop_file
from tightwire.engines.worker import work
from tightwire.lab.names import Owner, is_alive

_END_S = 5  # how long a worker that is told to end may take before it is killed


def run_processes(config: RunConfig, *, resume: bool) -> None:
    """Run all workers to their end; what they leave in the run's folder says how it went."""
    preload()
    for noisy in ("torch.distributed.elastic", "torch.multiprocessing.spawn"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    logs = config.path / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    launch = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=config.workers,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        local_addr="127.0.0.1",
        max_restarts=config.restarts,
        start_method="forkserver",
        logs_specs=DefaultLogsSpecs(log_dir=str(logs), redirects=Std.ALL),
        signals_to_handle="SIGTERM",
        shutdown_timeout=_END_S,
    )
    os.environ[VARIABLE] = leash()  # elastic hands its environment on
    with asking_to_stop(config), ending_the_stuck(config):
        try:
            elastic_launch(launch, work)(config.folder, config.wire, resume)
        except ChildFailedError:
            return  # the outcomes say why


@contextmanager
def ending_the_stuck(config: RunConfig) -> Iterator[None]:
    """Inside, a worker that outlives another's error by `_END_S` is killed: one that is stopped hears nothing else."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            failed = [path.stat().st_mtime for path in failures(config.path)]
            if not failed or time.time() - max(failed) < _END_S:
                continue
            for place in (config.path / "pids").glob("rank-*"):
                worker = Owner(*map(int, place.read_text(encoding="utf-8").split()))
                if place.stat().st_mtime < max(failed) and is_alive(worker):  # of the same attempt as the error
                    with suppress(ProcessLookupError):
                        os.kill(worker.pid, signal.SIGKILL)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


@contextmanager
def asking_to_stop(config: RunConfig) -> Iterator[None]:
    """Inside, Ctrl-C asks the workers to save and stop; the second Ctrl-C is an ordinary one."""

    def ask(signum: int, frame: FrameType | None) -> None:
        if stop_file(config.path).exists():
            raise KeyboardInterrupt
        stop_file(config.path).touch()

    before = {signal.SIGTERM: signal.getsignal(signal.SIGTERM)}  # elastic sets its own and leaves it
    before[signal.SIGINT] = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
