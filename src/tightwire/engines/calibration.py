"""What messages cost on this machine: two workers on the loopback measure it together (`plan.calibrate`)."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

from tightwire.engines.forked import fork, preload, wait
from tightwire.engines.leash import obey_leash
from tightwire.files import write_json
from tightwire.plan.asked import with_asking
from tightwire.plan.calibrate import calibrate
from tightwire.plan.cluster import PERFECT
from tightwire.plan.errors import PlanError
from tightwire.plan.profile import Overheads
from tightwire.recipes.sync_sgd import sync_sgd
from tightwire.run.join import join

_WORKERS = 2
_FOUND = "overheads.json"
_WIDTH = 512  # of the matrices that are multiplied between two messages, as a step computes between two exchanges
_ASKED = 1 << 18  # elements of what a server is asked


def overheads_here() -> Overheads:
    """Costs of a message, a byte, a job, a round and a server's answer, between two processes of this machine."""
    preload()
    with TemporaryDirectory(prefix="tightwire-") as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        common = {"WORLD_SIZE": str(_WORKERS), "LOCAL_WORLD_SIZE": str(_WORKERS), "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(probe.getsockname()[1]), "OMP_NUM_THREADS": "1"}  # fmt: skip
        probe.close()
        log = Path(folder) / "log"
        ranks = [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(_WORKERS)]
        wait([fork(_measure, folder, env=env, log=log) for env in ranks])
        try:
            return Overheads(**json.loads((Path(folder) / _FOUND).read_text(encoding="utf-8")))
        except FileNotFoundError:
            said = log.read_text(encoding="utf-8").splitlines() or ["nothing"]
            raise PlanError(f"two workers could not measure what messages cost here; they said: {said[-1]}") from None


def _measure(folder: str) -> None:
    obey_leash()
    torch.set_num_threads(1)
    tiny = nn.Linear(1, 1)
    a, b = torch.ones(_WIDTH, _WIDTH), torch.ones(_WIDTH, _WIDTH)
    with join(sync_sgd(), tiny, torch.optim.SGD(tiny.parameters(), lr=0.0)) as wire:
        transport = wire._worker.transport
        found = calibrate(transport, between=lambda: a @ b)
        found = with_asking(found, transport, PERFECT, numel=_ASKED, rounds=3)
    if os.environ["RANK"] == "0":
        write_json(Path(folder) / _FOUND, asdict(found))
