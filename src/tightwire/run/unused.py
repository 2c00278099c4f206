"""Parameters without a gradient.

A parameter that nobody used must keep `grad = None`, or weight decay and momentum would move it. One that only this
rank did not use takes part with zeros. To tell the two apart, ranks must agree; how often is a setting:

    watch   in the first step of a phase, and in every step from then on if anybody missed a gradient there
    agree   in every step
    zero    never: whoever nobody used gets a zero gradient
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from tightwire.run.assembly import Assembly
from tightwire.run.lane import Lane
from tightwire.run.transport import Entry


class Watch:
    """Knows which gradients exist on no rank."""

    def __init__(self, mode: Literal["watch", "agree", "zero"], assembly: Assembly) -> None:
        self._mode = mode
        self._assembly = assembly
        self._every_step = mode == "agree"

    def unused_everywhere(self, unseen: set[str], lanes: Sequence[Lane], *, first: bool) -> set[str]:
        """The tensors that no rank has a gradient for, as far as the mode looks."""
        if self._mode == "zero" or not (first or self._every_step):
            return set()
        names = [name for lane in lanes if lane.early and lane.collective for name in lane.tensors]
        if not names:
            return set()
        seen = torch.tensor([name not in unseen for name in names], dtype=torch.uint8)
        both = torch.cat([seen, 1 - seen])
        self._assembly.max_(both, Entry("agree", "unused"))
        somebody, anybody_missed = both.view(2, -1)
        if first:
            self._every_step = self._mode == "agree" or bool(anybody_missed.any())
        return {name for name, used in zip(names, somebody.tolist(), strict=True) if not used}
