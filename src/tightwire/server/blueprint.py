"""A shard as plain data and tensors: how one gets into a process that has neither model nor optimizer.

    describe   parts (rule, schedule, codecs) · layout of tensors · the optimizer's class and settings · all it knows
    build      the same shard again, elsewhere; it goes on where the first one stood

Optimizers are those of `torch.optim`: a class of your own is not known to a server that stands alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tightwire.algebra.errors import PayloadError, RecipeError
from tightwire.algebra.tensors import Bucket, Segment, Spec
from tightwire.rules.yours import whole_name
from tightwire.server import memo
from tightwire.server.movers import Mover, OptimizerMover, RuleMover
from tightwire.server.parts import heard, told
from tightwire.server.shard import Shard

_PARTS = ("rule", "schedule", "up", "down", "at")
_DTYPES = {str(dtype): dtype for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)}


def describe(shard: Shard) -> dict[str, Any]:
    """Everything that `build` needs."""
    return {
        "parts": {name: told(getattr(shard, name)) for name in _PARTS},
        "layout": {label: _layout(bucket.spec) for label, bucket in shard.center.items()},
        "mover": _mover_told(shard.mover),
        "state": memo.everything_of(shard),
    }


def build(data: Any) -> Shard:
    """The shard again. Whatever is wrong with the data is a `PayloadError`."""
    try:
        parts = {name: heard(data["parts"][name]) for name in _PARTS}
        specs = {label: _spec(rows) for label, rows in data["layout"].items()}
        came = sum(tensor.numel() for tensor in data["state"]["center"].values())
        if sum(spec.numel for spec in specs.values()) != came:
            raise PayloadError(f"a layout that does not hold the {came} elements that came with it")
        center = {label: Bucket.zeros(spec) for label, spec in specs.items()}
        shard = Shard(center=center, mover=_mover(data["mover"], center, parts), **parts)
        memo.restore_everything(shard, data["state"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
        if isinstance(error, PayloadError):
            raise
        raise PayloadError(f"no shard can be made of this: {error!r}"[:300]) from None
    return shard


# ── tensors ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _layout(spec: Spec) -> list[Any]:
    return [str(spec.dtype), [[s.name, s.offset, list(s.shape), s.first_row] for s in spec.segments]]


def _spec(data: Any) -> Spec:
    dtype, rows = data
    return Spec(tuple(Segment(name, at, tuple(shape), first) for name, at, shape, first in rows), _DTYPES[dtype])


# ── who moves the centre ──────────────────────────────────────────────────────────────────────────────────────────


def _mover_told(mover: Mover) -> dict[str, Any]:
    if isinstance(mover, RuleMover):
        return {"at": told(mover.at)}
    if not isinstance(mover, OptimizerMover):
        raise RecipeError(f"a {type(mover).__name__} cannot be told to a server that stands alone; leave out --server")
    kind = type(mover.optimizer)
    if getattr(torch.optim, kind.__name__, None) is not kind:
        raise RecipeError(
            f"{kind.__name__} is not of torch.optim, so a server that stands alone cannot make one; leave out --server"
        )
    return {"optimizer": kind.__name__, "seat": told(mover.seat), "groups": mover.groups()}


def _mover(data: dict[str, Any], center: dict[str, Bucket], parts: dict[str, Any]) -> Mover:
    if "at" in data:
        rule = parts["rule"]
        return RuleMover(rule, {label: rule.init(bucket.spec) for label, bucket in center.items()}, heard(data["at"]))
    kind = getattr(torch.optim, str(data["optimizer"]), None)
    if not isinstance(kind, type) or not issubclass(kind, torch.optim.Optimizer) or kind is torch.optim.Optimizer:
        raise PayloadError(f"torch.optim has no {str(data['optimizer'])[:40]}")
    names: dict[Tensor, str] = {}
    groups: list[dict[str, Any]] = []
    for index, settings, held in data["groups"]:
        while len(groups) < index:  # groups of the worker's optimizer whose tensors are not here
            groups.append({"params": [nn.Parameter(torch.zeros(0))]})
        stands_in = {name: nn.Parameter(torch.zeros(0)) for name in dict.fromkeys(map(whole_name, held))}
        names |= {parameter: name for name, parameter in stands_in.items()}
        groups.append({**settings, "params": list(stands_in.values())})
    return OptimizerMover(center, kind(groups), names, heard(data["seat"]))  # type: ignore[call-arg]
