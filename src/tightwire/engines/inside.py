"""Workers inside this process, on the in-process link: deterministic, nothing is started (``--engine inside``).

Workers pretend to take time (`engines.delays`), and whoever is earliest runs next: so they come to a server in an order
that varies, as real workers do, the same one each time, and the run says how long it would have taken.
"""

from __future__ import annotations

import torch

from tightwire.engines.config import RunConfig
from tightwire.engines.local import asking_to_stop
from tightwire.engines.outcome import Outcome
from tightwire.engines.script import IN_PROCESS, train
from tightwire.engines.worker import CURABLE
from tightwire.run.together import earliest, together


def run_inside(config: RunConfig, *, resume: bool) -> None:
    """Run all workers as one process."""
    torch.set_num_threads(1)
    with asking_to_stop(config):
        try:
            outcomes = together(
                config.workers,
                lambda rank: train(config, rank=rank, link=IN_PROCESS, resume=resume),
                order=earliest(),
            )
        except CURABLE as error:
            outcomes = [Outcome("error", text=str(error))]
    for rank, outcome in enumerate(outcomes):
        outcome.write(config.path, rank)
