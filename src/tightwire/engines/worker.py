"""One worker process: runs the script and leaves its outcome, whatever happens.

    python -m tightwire.engines.worker RUN --link "processes" [--resume]

What a user can cure ends as one sentence in the outcome. A lost or stuck peer ends as a failure of the process, so that
whoever started it can start all anew from the last checkpoint.
"""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path
from typing import Any

import torch

from tightwire.algebra.errors import LinkError, TightwireError
from tightwire.data import DataError
from tightwire.engines.config import RunConfig
from tightwire.engines.leash import obey_leash
from tightwire.engines.outcome import Outcome
from tightwire.engines.quick import make_quick
from tightwire.engines.recipe import make_recipe, needs_server
from tightwire.engines.script import train
from tightwire.files import write_text
from tightwire.lab.names import myself
from tightwire.models import ModelError

CURABLE = (TightwireError, DataError, ModelError)


def work(folder: str, link: str, resume: bool) -> None:
    """Be one worker of the run in ``folder``; the environment says which."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us decides what Ctrl-C means
    obey_leash()  # and we do not outlive them
    rank = int(os.environ.get("RANK", "0"))
    again = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    _leave_pid(Path(folder), rank)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    config = RunConfig.load(Path(folder))
    if needs_server(make_recipe(config)):
        make_quick()  # before anything loads gRPC
    outcome = _attempt(config, rank, link, resume or again)
    outcome.write(Path(folder), rank)


def _leave_pid(folder: Path, rank: int) -> None:
    """Which process is which worker: its id, and when it started, so that no other can be taken for it."""
    if not Path("/proc/self/stat").exists():
        return  # only Linux tells when a process started
    me = myself()
    write_text(folder / "pids" / f"rank-{rank}", f"{me.pid} {me.started}")


def work_under_torchrun(config: RunConfig) -> dict[str, Any] | None:
    """Be a worker that torchrun started; all workers see the same folder. Rank 0 gets the result."""
    rank = int(os.environ["RANK"])
    again = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    config = config.but(workers=int(os.environ["WORLD_SIZE"]))
    if needs_server(make_recipe(config)):
        make_quick()
    if rank == 0:
        config.save()
    outcome = train(config, rank=rank, link="torchrun", resume=again)
    return outcome.result if rank == 0 else None


def _attempt(config: RunConfig, rank: int, link: str, resume: bool) -> Outcome:
    try:
        return train(config, rank=rank, link=link, resume=resume)
    except LinkError as error:
        Outcome("error", text=str(error)).write(config.path, rank)
        raise
    except CURABLE as error:
        return Outcome("error", text=str(error))


def main() -> None:
    """The command line of a worker process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--link", required=True)
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args()
    work(arguments.folder, arguments.link, arguments.resume)


if __name__ == "__main__":
    main()
