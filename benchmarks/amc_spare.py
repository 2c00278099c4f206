"""A cut network, trained a little wider: with channels that nobody reads, up to widths that a GPU multiplies fast.

    widths 6, 10, 26  →  8, 16, 32      columns that read a spare channel are zero, and held so
    train
    8, 16, 32  →  6, 10, 26             the spare channels are cut, and every answer is as before

What nobody reads has no gradient, so the other weights go the way they would have gone without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor, nn

from tightwire.compress.prune.gradual import Gradual, Target
from tightwire.compress.prune.masks import prunable
from tightwire.compress.prune.schedules import one_shot
from tightwire.compress.retrain import Constraint
from tightwire.compress.search.channels import Channels
from tightwire.compress.search.groups import cut_

WIDTHS = 8  # bfloat16 numbers in 16 bytes, which matrix units want

Trained = Callable[[nn.Module, Constraint], None]


def train_with_spare(scorer: Channels, levels: Sequence[int], example: Tensor, trained: Trained) -> nn.Module:
    """The network that a policy leaves, trained by ``trained`` with spare channels, without them again."""
    model = scorer.cut(levels, example, multiple_of=WIDTHS)
    kept, wide = scorer.kept(levels), scorer.kept(levels, multiple_of=WIDTHS)
    trained(model, _zeros_held(model))
    model.eval()
    cut_(model, example, {name: np.searchsorted(wide[name], channels) for name, channels in kept.items()})
    return model


def _zeros_held(model: nn.Module) -> Gradual:
    """What is zero stays zero."""
    found = {name: (int(weight.count_nonzero()), weight.numel()) for name, weight in prunable(model).items()}
    share = {name: (some + 0.5) / count for name, (some, count) in found.items() if some < count}
    return Gradual(model, Target(share, "layer", one_shot()), until=0.0)
