"""How fast workers compute who share cores, and what it costs them to meet. All ranks call this together.

    pace = core · workers ÷ cores        core: what a pass keeps a core busy, while all are at work

Cores are never idle while more workers than cores compute, so their clock tells how long a pass of all takes in the
long run. The mean on the wall tells less, because whoever is done leaves its share to the others; and it jumps with
whatever else runs on the machine for a moment.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

IN_A_ROW = 4  # passes that are measured together
ROUNDS = 12  # of three things whose difference is looked for

Batch = tuple[Tensor, Tensor]


def compute_together(model: nn.Module, batch: Batch, *, times: int, who: int | None = None) -> float:
    """The pace of the forward and backward pass of the first ``who`` ranks at once."""
    who = who or dist.get_world_size()
    found = [_in_a_row(lambda: _passes(model, batch), who) for _ in range(times + 1)]
    return statistics.median(found[1:] or found)


def keeping_step(model: nn.Module, batch: Batch) -> float:
    """What meeting after every pass costs beyond the pass and the message.

    Waiting itself costs nothing while somebody else has work for the core, and where nobody has, the message's own time
    says so: it was timed between workers who had nothing else to do. What is left is work: whoever keeps step with the
    others wants the same memory at the same moment, and begins each pass with what the message left in the caches. So
    cores are asked, not the wall; of a pass and a message after it, a pass alone, and a message alone, in turn.
    """
    met, who = torch.zeros(1), dist.get_world_size()
    more = []
    for _ in range(ROUNDS + 1):
        apart = _in_a_row(lambda: _passes(model, batch), who)
        meeting = _in_a_row(lambda: (_passes(model, batch), dist.all_reduce(met)), who)
        message_s = in_the_long_run(sum(_message_s(model, batch) for _ in range(IN_A_ROW)) / IN_A_ROW, who)
        more.append(meeting - apart - message_s)
    return max(0.0, statistics.median(more[1:]))


def common(value: float) -> float:
    """The mean over ranks."""
    heard = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(heard)
    return float(heard) / dist.get_world_size()


def in_the_long_run(core_s: float, who: int) -> float:
    """How long all of ``who`` take for what keeps a core busy for so long in each of them, the mean over ranks."""
    return common(core_s) * dist.get_world_size() / who * max(1.0, who / (os.cpu_count() or 1))


def _in_a_row(work: Callable[[], object], who: int) -> float:
    """What one of several takes; in a row, because whoever is first after a barrier had the cores for itself."""
    dist.barrier()
    start = time.process_time()
    for _ in range(IN_A_ROW if dist.get_rank() < who else 0):
        work()
    core_s = (time.process_time() - start) / IN_A_ROW
    return in_the_long_run(core_s if dist.get_rank() < who else 0.0, who)


def _passes(model: nn.Module, batch: Batch) -> None:
    F.cross_entropy(model(batch[0]), batch[1]).backward()
    for p in model.parameters():
        p.grad = None


def _message_s(model: nn.Module, batch: Batch) -> float:
    """What a message of all to all keeps a core busy, when they have computed and met."""
    met = torch.zeros(1)
    _passes(model, batch)
    dist.all_reduce(met)
    start = time.process_time()
    dist.all_reduce(met)
    return time.process_time() - start
