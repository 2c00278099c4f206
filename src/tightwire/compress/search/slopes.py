"""What the logits feel of a layer: the second moments of their gradient by its outputs, and of its inputs.

    Γ = E[Σ g·gᵀ]      over positions,  g = ∂⟨v, logits⟩ / ∂(outputs at one position),  v ~ N(0, I)

With the moments of its inputs, A (`reconstruct`), a Kronecker-factored Gauss–Newton matrix: E‖Δ logits‖² is about
tr(Γ · ΔW · A · ΔWᵀ). Martens, Grosse: Optimizing Neural Networks with Kronecker-factored Approximate Curvature. ICML
2015, arXiv 1503.05671; for convolutions, whose positions count as uncorrelated: Grosse, Martens: A Kronecker-factored
approximate Fisher matrix for convolution layers. ICML 2016, arXiv 1602.01407. Of the logits, not of the loss: on
samples that a network knows by heart no curvature is left. A constant added to all logits moves no answer, so it does
not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tightwire.compress.search.layers import Layer


@dataclass(frozen=True, eq=False)
class Slope:
    """Γ of one layer, outputs × outputs, and the mean square of each of its input channels."""

    gram_OO: Tensor  # noqa: N815
    square_C: Tensor  # noqa: N815

    def plus(self, other: Slope | None) -> Slope:
        """The sum of both."""
        return self if other is None else Slope(self.gram_OO + other.gram_OO, self.square_C + other.square_C)


def slopes(model: nn.Module, layers: Sequence[Layer], batches: Sequence[Tensor]) -> dict[str, Slope]:
    """What some layers do to the logits, from one pass there and back over some batches; of those that they feel."""
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
    """Down to the input, or the parameters where inputs are numbers of words; nobody's ``grad`` is touched."""
    smooth = batch.is_floating_point()
    x = batch.detach().clone().requires_grad_(smooth)
    ends = [x] if smooth else [parameter for parameter in model.parameters() if parameter.requires_grad]
    logits = model(x)
    v = torch.randn(logits.shape, generator=random).to(logits.device)
    torch.autograd.grad((v * (logits - logits.mean(-1, keepdim=True))).sum(), ends, allow_unused=True)


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
def uncorrelated(layer: Layer, weight: Tensor, slope: Slope) -> Tensor:
    """The harm of losing ``weight``, by input channel (of a group), as if neither inputs nor outputs were correlated.

    For layers whose inputs have no statistics (`reconstruct`).
    """
    square_OC = weight.detach().flatten(2).square().sum(-1) if weight.ndim > 2 else weight.detach().square()
    mean_OC = slope.square_C.reshape(layer.groups, -1).repeat_interleave(len(weight) // layer.groups, 0)
    return (slope.gram_OO.diagonal()[:, None] * square_OC * mean_OC).sum(0)
