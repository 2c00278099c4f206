"""Exchanged gradients become `p.grad`: views of the bucket, or sparse tensors where few elements moved.

An optimizer that leaves alone what has no gradient (SGD without momentum and decay) then touches as little as was sent,
instead of every weight: after DGC at 0.001 that is a tenth of a step on a CPU.
"""

from __future__ import annotations

from collections.abc import Set

import torch
from torch import Tensor

from tightwire.algebra.tensors import Few, Segment
from tightwire.run.parcel import Parcel


def hand_out(parcel: Parcel, unused: Set[str], optimizer: torch.optim.Optimizer, *, at_once: bool) -> None:
    """Give every tensor of a parcel its gradient; ``at_once`` says that the optimizer steps before anybody looks."""
    wants_sparse = isinstance(optimizer, torch.optim.SparseAdam)
    if not (at_once and takes_sparse(optimizer)):
        parcel.x.fasten_()
    few, parcel.x.few = parcel.x.few, None
    for name, tensor in parcel.tensors.items():
        if few is not None and name not in few.but:
            tensor.grad = _sparse(parcel.x.place(name), few).to(tensor.dtype)
            continue
        view = parcel.x[name]
        if name in unused and not bool(view.any()):  # a memory may still have owed something
            tensor.grad = None
            continue
        gradient = view if view.dtype == tensor.dtype else view.to(tensor.dtype)
        tensor.grad = gradient.to_sparse(1) if wants_sparse else gradient


def takes_sparse(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a sparse gradient moves the weights as the same gradient in full would."""
    plain = type(optimizer) is torch.optim.SGD and not optimizer._optimizer_step_pre_hooks
    return plain and not any(
        group["momentum"] or group["weight_decay"] or group.get("fused") or group.get("differentiable")
        for group in optimizer.param_groups
    )


def _sparse(s: Segment, few: Few) -> Tensor:
    """One tensor of a bucket that is few."""
    ends = torch.tensor([s.offset, s.offset + s.numel], device=few.index_K.device)
    low, high = torch.searchsorted(few.index_K, ends).tolist()
    index_K = few.index_K[low:high] - s.offset
    places = torch.stack(torch.unravel_index(index_K, s.shape)) if len(s.shape) != 2 else _rows(index_K, s.shape[1])
    return torch.sparse_coo_tensor(places, few.value_K[low:high], s.shape, is_coalesced=True, check_invariants=False)


def _rows(index_K: Tensor, columns: int) -> Tensor:
    row_K = torch.div(index_K, columns, rounding_mode="floor")
    return torch.stack([row_K, index_K - row_K * columns])
