"""Whether a network fits: asked before its weights are made."""

from __future__ import annotations

import os

from torch import nn

from tightwire.plan.errors import PlanError

_COPIES = 3  # weights, gradients, one buffer of the optimizer


def check_fits(model: nn.Module, name: str) -> None:
    """Refuse a network whose largest layer, or all of it, has no room in this machine's memory."""
    has = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    sizes = {key: 4 * tensor.numel() for key, tensor in model.named_parameters()}
    largest = max(sizes, key=lambda key: sizes[key], default="")
    if largest and _COPIES * sizes[largest] > has:
        raise PlanError(
            f"{largest} of {name} takes {_gigabytes(sizes[largest])}, its gradient and momentum as much again, and "
            f"this machine has {_gigabytes(has)}; profile it where it fits (--save-profile) and plan here (--profile)"
        )
    if _COPIES * sum(sizes.values()) > has:
        raise PlanError(
            f"{name} takes {_gigabytes(sum(sizes.values()))}, its gradients and momentum as much again, and this "
            f"machine has {_gigabytes(has)}; profile it where it fits (--save-profile) and plan here (--profile)"
        )


def _gigabytes(nbytes: float) -> str:
    return f"{nbytes / 1e9:,.1f} GB"
