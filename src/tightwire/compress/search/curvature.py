"""What it harms when channels go, foreseen from the curvature: no pruned network is measured.

    harm(ΔW) = E‖Δ logits‖² ≈ tr(Γ · ΔW · A · ΔWᵀ)

    A = E[x·xᵀ]             of what one application of the kernel sees     (`reconstruct`)
    Γ = E[Σ g·gᵀ]           over positions, g the gradient of ⟨v, logits⟩ by the layer's outputs,  v ~ N(0, I)
    ΔW                      what refitting leaves of the difference

The Gauss–Newton matrix of the logits with Kronecker factors: Martens, Grosse: Optimizing Neural Networks with
Kronecker-factored Approximate Curvature. ICML 2015, arXiv 1503.05671; for convolutions, whose positions count as
uncorrelated: Grosse, Martens. ICML 2016, arXiv 1602.01407; for choosing channels: Wang, Grosse, Fidler, Zhang:
EigenDamage. ICML 2019, arXiv 1905.05934. The logits', not the loss's: a loss on samples that a network knows by heart
has no curvature left. A constant added to all logits moves no answer, so it does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tightwire.compress.search.channels import Channels
from tightwire.compress.search.cost import Floats
from tightwire.compress.search.layers import Layer

_SCANNED = 9  # choices of a unit that are looked at; what is between lies on a line


@dataclass(frozen=True, eq=False)
class Slope:
    """Γ of one layer, outputs × outputs, and the mean square of each of its input channels."""

    gram_OO: Tensor  # noqa: N815
    square_C: Tensor  # noqa: N815

    def plus(self, other: Slope | None) -> Slope:
        """The sum of both."""
        return self if other is None else Slope(self.gram_OO + other.gram_OO, self.square_C + other.square_C)


def slopes(model: nn.Module, layers: Sequence[Layer], batches: Sequence[Tensor]) -> dict[str, Slope]:
    """What some layers do to the logits, from one pass there and back over some batches."""
    examples, heard = sum(map(len, batches)), dict[str, Slope]()
    hooks = [layer.module.register_forward_hook(_listen(heard, layer.name, examples)) for layer in layers]
    was_training = model.training
    random = torch.Generator().manual_seed(0)
    try:
        model.eval()
        with torch.enable_grad(), _kernels(model):
            for batch in batches:
                _back(model, batch, random)
    finally:
        model.train(was_training)
        for hook in hooks:
            hook.remove()
    return heard


def _kernels(model: nn.Module) -> AbstractContextManager[None]:
    """Those of cuDNN go back through recurrent layers only while these are trained."""
    recurrent = any(isinstance(module, nn.RNNBase) for module in model.modules())
    return torch.backends.cudnn.flags(enabled=False) if recurrent else nullcontext()


def _back(model: nn.Module, batch: Tensor, random: torch.Generator) -> None:
    """Only by the input: parameters get no gradients."""
    x = batch.detach().clone().requires_grad_()
    logits = model(x)
    v = torch.randn(logits.shape, generator=random).to(logits.device)
    torch.autograd.grad((v * (logits - logits.mean(-1, keepdim=True))).sum(), x)


def _listen(heard: dict[str, Slope], name: str, examples: int) -> Any:
    def listen(module: nn.Module, args: tuple[Tensor, ...], out: Tensor) -> None:
        seen = _rows(args[0].detach())
        square_C = seen.square().mean(0) * (len(args[0]) / examples)

        def back(grad: Tensor) -> None:
            rows = _rows(grad)
            heard[name] = Slope(rows.T @ rows / examples, square_C).plus(heard.get(name))

        out.register_hook(back)

    return listen


def _rows(x: Tensor) -> Tensor:
    """Channels in columns, a row for each position of each example."""
    return x.movedim(1, -1).flatten(0, -2) if x.ndim == 4 else x.flatten(0, -2)


@torch.no_grad()
def foresee(scorer: Channels, batches: Sequence[Tensor]) -> tuple[Floats, ...]:
    """The harm of every choice of every unit, all others whole."""
    slope = slopes(scorer.model, [scorer.layers[name] for name in scorer.readers], batches)
    found = []
    for u, unit in enumerate(scorer.units):
        last = len(unit.choices) - 1
        scanned = np.unique(np.linspace(0, last, min(_SCANNED, last + 1)).round().astype(np.intp))
        harm = [_harm(scorer, slope, u, int(level)) if level < last else 0.0 for level in scanned]
        found.append(np.interp(np.arange(last + 1), scanned, np.maximum.accumulate(harm[::-1])[::-1]))
    return tuple(found)


def _harm(scorer: Channels, slope: Mapping[str, Slope], u: int, level: int) -> float:
    """Of one choice: the sum over the layers that read what goes."""
    total = 0.0
    for name, version in scorer.alone(u, level).items():
        if name not in slope:
            continue  # the logits do not depend on it
        if name in scorer.known:
            seen = scorer.known[name]
            moved = seen.weight_OD - seen.matrix(version, name)
            harm = (slope[name].gram_OO * (moved @ (seen.gram_DD / seen.rows) @ moved.T)).sum()
        else:
            harm = _uncorrelated(scorer.layers[name], version[f"{name}.weight"], slope[name])
        total += max(float(harm), 0.0)
    return total


def _uncorrelated(layer: Layer, weight: Tensor, slope: Slope) -> Tensor:
    """Where inputs have no statistics (`reconstruct`): as if inputs were uncorrelated, and outputs, too."""
    moved_OC = (layer.module.weight - weight).flatten(2).square().sum(-1)  # of a grouped layer, the channels of a group
    square_OC = slope.square_C.reshape(layer.groups, -1).repeat_interleave(len(moved_OC) // layer.groups, 0)
    return (slope.gram_OO.diagonal()[:, None] * moved_OC * square_OC).sum()
