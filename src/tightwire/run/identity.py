"""What a run is, in words that two workers, or a run and its checkpoint, can compare."""

from __future__ import annotations

import hashlib

from torch import nn

from tightwire.algebra.errors import JoinError
from tightwire.algebra.recipe import describe
from tightwire.algebra.tensors import canonical
from tightwire.run.checkpoint import Description
from tightwire.run.transport import Entry
from tightwire.run.worker import Worker


def description_of(worker: Worker, model: nn.Module, step: int | None = None) -> Description:
    """What a checkpoint of all workers is of, called by a ``step``. How tensors are packed does not matter to it."""
    tensors = {
        canonical(name): [list(t.shape), str(t.dtype).removeprefix("torch.")] for name, t in model.state_dict().items()
    }
    recipe = describe(worker.recipe, without=frozenset({"grain"}))
    return Description(worker.clock if step is None else step, worker.link.world.size, recipe, tensors)


def agree_on_run(worker: Worker, model: nn.Module) -> None:
    """All workers compare model and recipe, and name the one that differs."""
    text = describe(worker.recipe) + repr(sorted(description_of(worker, model).tensors.items()))
    digest = hashlib.sha256(text.encode()).digest()
    heard = worker.assembly.everyones(digest, Entry("setup", "agree"))
    odd = [rank for rank, said in enumerate(heard) if said != heard[0]]
    if odd:
        raise JoinError(
            f"rank {odd[0]} joined with another model or recipe than rank 0; start all workers from the same "
            "script with the same arguments"
        )
