"""What it harms when channels go, foreseen from the curvature: no pruned network is measured.

    harm(ΔW) = E‖Δ logits‖² ≈ tr(Γ · ΔW · A · ΔWᵀ)        ΔW: what refitting leaves of the difference

A are the moments of what one application of the kernel sees (`reconstruct`), Γ those of the logits' gradients by what
it gives (`slopes`). Compare Wang, Grosse, Fidler, Zhang: EigenDamage: Structured Pruning in the Kronecker-Factored
Eigenbasis. ICML 2019, arXiv 1905.05934.
"""

from __future__ import annotations

import numpy as np
import torch

from tightwire.compress.search.channels import Channels
from tightwire.compress.search.cost import Floats
from tightwire.compress.search.slopes import uncorrelated

_SCANNED = 9  # choices of a unit that are looked at; what is between lies on a line


@torch.no_grad()
def foresee(scorer: Channels) -> tuple[Floats, ...]:
    """The harm of every choice of every unit, all others whole."""
    found = []
    for u, unit in enumerate(scorer.units):
        last = len(unit.choices) - 1
        scanned = np.unique(np.linspace(0, last, min(_SCANNED, last + 1)).round().astype(np.intp))
        harm = [_harm(scorer, u, int(level)) if level < last else 0.0 for level in scanned]
        found.append(np.interp(np.arange(last + 1), scanned, np.maximum.accumulate(harm[::-1])[::-1]))
    return tuple(found)


def _harm(scorer: Channels, u: int, level: int) -> float:
    """Of one choice: the sum over the layers that read what goes, if the logits depend on them."""
    total, known, slope = 0.0, scorer.seen.known, scorer.seen.slope
    for name, version in scorer.alone(u, level).items():
        if name in known and name in slope:
            moved = known[name].weight_OD - known[name].matrix(version, name)
            harm = (slope[name].gram_OO * (moved @ known[name].mean_DD @ moved.T)).sum()
            total += max(float(harm), 0.0)
        elif name in slope:
            weight = scorer.layers[name].module.weight - version[f"{name}.weight"]
            total += float(uncorrelated(scorer.layers[name], weight, slope[name]).sum())
    return total
