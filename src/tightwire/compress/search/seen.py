"""Everything that is gathered once from a few training samples, before channels are ranked, refitted and chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from tightwire.compress.retrain import Examples
from tightwire.compress.search.groups import Group
from tightwire.compress.search.layers import Layer
from tightwire.compress.search.reconstruct import Statistics, gather
from tightwire.compress.search.slopes import Slope, slopes

_FORTH, _BACK = 2000, 1000  # samples seen on the way there, and on the way back
_AT_ONCE, _NUMBERS_AT_ONCE = 200, 1 << 20  # samples of a batch, and numbers in them: fewer where images are large


@dataclass(frozen=True, eq=False)
class Seen:
    """Of each layer that reads channels of groups: what goes in (`reconstruct`), and what comes back (`slopes`)."""

    known: Mapping[str, Statistics] = field(default_factory=dict)
    slope: Mapping[str, Slope] = field(default_factory=dict)


def look(model: nn.Module, layers: Mapping[str, Layer], groups: Sequence[Group], train: Examples) -> Seen:
    """One pass there over the first training samples, and one back over some of them."""
    readers = [layers[name] for name in dict.fromkeys(name for group in groups for name in group.readers)]
    return Seen(gather(model, readers, _first(train, _FORTH)), slopes(model, readers, _first(train, _BACK)))


def _first(train: Examples, count: int) -> tuple[Tensor, ...]:
    some = _NUMBERS_AT_ONCE // max(1, train.x_N[0].numel())
    return torch.split(train.x_N[:count], min(_AT_ONCE, max(1, some)))
