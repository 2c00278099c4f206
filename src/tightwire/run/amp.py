"""Loss scaling that all ranks agree on, and that never puts a scaled or infinite gradient into a memory.

    any gradient not finite on any rank?  ── yes ─▶ nobody exchanges, nobody steps, the scale is lowered everywhere
                                          └─ no ──▶ unscale, then remember, compress, exchange, step

Without a `GradScaler` all of this is nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from tightwire.run.assembly import Assembly
from tightwire.run.transport import Entry


class Scaling:
    """The scaler's part of a step."""

    def __init__(self, scaler: torch.amp.GradScaler | None, assembly: Assembly) -> None:
        self._scaler = scaler if scaler is not None and scaler.is_enabled() else None
        self._assembly = assembly
        self._overflow: bool | None = None
        self._unscaled = False

    @property
    def enabled(self) -> bool:
        """True if gradients are scaled; then nothing may leave before the backward pass has ended."""
        return self._scaler is not None

    def overflowed(self, tensors: Iterable[nn.Parameter], shared: bool) -> bool:
        """Whether this step must be skipped; if gradients are ``shared``, all ranks give the same answer."""
        if self._scaler is None:
            return False
        if self._overflow is None:
            gradients = [t.grad for t in tensors if t.grad is not None]
            flags = [torch.isfinite(g if g.layout == torch.strided else g.coalesce().values()).all() for g in gradients]
            bad = float(bool(flags) and not bool(torch.stack(flags).all()))
            flag = torch.tensor([bad])
            if shared:
                self._assembly.max_(flag, Entry("agree", "overflow"))
            self._overflow = bool(flag)
            if self._overflow and gradients:
                gradients[0].fill_(torch.inf)  # so that the scaler sees on this rank what another rank saw
        return self._overflow

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the gradients by the scale, once a step."""
        if self._scaler is not None and not self._unscaled:
            self._scaler.unscale_(optimizer)
            self._unscaled = True

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Step the optimizer unless the step is skipped; move the scale."""
        if self._scaler is None:
            optimizer.step()
            return
        self._scaler.step(optimizer)
        self._scaler.update()
        self._overflow, self._unscaled = None, False

    def state(self) -> dict[str, object]:
        """What a checkpoint keeps."""
        return {} if self._scaler is None else dict(self._scaler.state_dict())

    def restore(self, state: dict[str, object]) -> None:
        """Go on from a checkpoint."""
        if self._scaler is not None and state:
            self._scaler.load_state_dict(state)
