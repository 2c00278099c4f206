"""What messages and codecs cost workers who share cores, beside passes of the same moment; called by all ranks at once.

A machine may be half as fast a second later. So nothing is compared with a pass that was timed long before: the passes
lie right beside it, and of several such comparisons the median counts.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from functools import partial
from typing import TypeVar

import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from benchmarks.pace import Batch, common, compute_together
from tightwire.algebra.recipe import AnyRecipe
from tightwire.plan.asked import with_asking
from tightwire.plan.calibrate import calibrate
from tightwire.plan.cluster import Link
from tightwire.plan.codings import with_codings
from tightwire.plan.profile import Coding, Overheads, Profile
from tightwire.run.transport import Transport

TRIES = 3
SLOW_S = 0.2  # where the whole model takes longer, the wire counts and not the machine
ASKED = ("ask_s", "ask_core_s", "ask_byte_s", "ask_core_byte_s", "keep_core_byte_s", "serve_byte_s")
Pace = Callable[[], float]
Value = TypeVar("Value", Coding, Overheads)


def messages(transport: Transport, link: Link, profile: Profile, model: nn.Module, batch: Batch) -> Overheads:
    """What messages cost after passes."""
    large = int(min(4 << 20, link.bytes_per_s / 10)) // 1024 * 1024
    between, tries = partial(passes, model, batch), []
    for _ in range(TRIES):
        slow = compute_together(model, batch, times=1) / profile.compute_s
        tries.append(calibrate(transport, slow=slow, rounds=3, large_nbytes=large, between=between))
    return medians(tries)


def questions(costs: Overheads, transport: Transport, link: Link, profile: Profile, pace: Pace) -> Overheads:
    """What a server costs, as if the machine were as fast as when the model was profiled; ``pace`` says how slow it is
    now, beside each try.
    """
    few = link.seconds(4 * profile.nparams) > SLOW_S
    tries = []
    for _ in range(1 if few else TRIES):
        slow = pace()
        found = with_asking(costs, transport, link, numel=profile.nparams, rounds=3)
        tries.append(replace(found, **{name: getattr(found, name) / slow for name in ASKED}))
    return medians(tries)


def passes(model: nn.Module, batch: Batch) -> None:
    """Forward and backward pass of a batch."""
    F.cross_entropy(model(batch[0]), batch[1]).backward()
    model.zero_grad()


def codings(model: nn.Module, batch: Batch, recipes: Iterable[AnyRecipe], profile: Profile) -> dict[str, Coding]:
    """What the recipes' codecs keep a core busy while all work, on gradients of the model; the mean over ranks."""
    F.cross_entropy(model(batch[0]), batch[1]).backward()
    workers = dist.get_world_size()
    found = with_codings(profile, model, recipes, workers=workers, repeats=4, clock=time.process_time)
    model.zero_grad()
    return {key: averaged(coding) for key, coding in found.codings.items()}


def coded(profile: Profile, found: dict[str, Coding], pace_s: float) -> Profile:
    """With codecs as they were timed at this pace: what keeps a core busy for c takes c·workers ÷ cores."""
    factor = dist.get_world_size() / (os.cpu_count() or 1) * profile.compute_s / pace_s
    return profile.but(codings={key: slower(coding, factor) for key, coding in found.items()})


def medians(tries: list[Value]) -> Value:
    """Of every time that was measured."""
    times = [f.name for f in fields(tries[0]) if f.name.endswith("_s") or f.name == "uneven"]
    return replace(tries[0], **{name: statistics.median(getattr(one, name) for one in tries) for name in times})


def averaged(coding: Coding) -> Coding:
    """The mean over ranks."""
    return replace(coding, encode_s=common(coding.encode_s), decode_s=common(coding.decode_s),
                   settle_s=common(coding.settle_s))  # fmt: skip


def slower(coding: Coding, factor: float) -> Coding:
    """Times by a factor."""
    return replace(coding, encode_s=factor * coding.encode_s, decode_s=factor * coding.decode_s,
                   settle_s=factor * coding.settle_s)  # fmt: skip
