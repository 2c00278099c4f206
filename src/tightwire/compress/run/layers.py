"""The modules that take the place of `nn.Linear`, `nn.Conv1d` and `nn.Conv2d`. For inference: no gradient flows."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tightwire.compress.errors import CompressError
from tightwire.compress.run.form import Choice, Form


class SharedLinear(nn.Module):
    """A linear layer that runs in the form that was chosen for it."""

    def __init__(self, form: Form, *, inputs: int, choice: Choice, device: torch.device) -> None:
        super().__init__()
        self.form, self.inputs, self.choice, self.device = form, inputs, choice, device

    def forward(self, x: Tensor) -> Tensor:
        """Y = W x + b over the last dimension."""
        if x.shape[-1] != self.inputs:
            raise CompressError(f"{self.choice.layer} takes {self.inputs} inputs, not {tuple(x.shape)}")
        return _given(self.form(_taken(x, self)), x)

    def extra_repr(self) -> str:
        """Shape and form."""
        return str(self.choice)


class SharedConv(nn.Module):
    """A convolution of one or two dimensions that runs in the form that was chosen for it."""

    def __init__(self, form: Form, *, inputs: int, dimensions: int, choice: Choice, device: torch.device) -> None:
        super().__init__()
        self.form, self.inputs, self.dimensions = form, inputs, dimensions
        self.choice, self.device = choice, device

    def forward(self, x: Tensor) -> Tensor:
        """As torch's, with or without a batch."""
        d = self.dimensions
        if x.dim() not in (d + 1, d + 2) or x.shape[-d - 1] != self.inputs:
            raise CompressError(
                f"{self.choice.layer} takes {self.inputs} channels of {d} dimensions, not {tuple(x.shape)}"
            )
        taken = _taken(x, self)
        batch = taken if x.dim() == d + 2 else taken[None]
        if self.choice.form == "dense":
            y = self.form(batch)
        else:
            y = self.form(batch if d == 2 else batch[:, :, None])
            y = y if d == 2 else y[:, :, 0]
        return _given(y if x.dim() == d + 2 else y[0], x)

    def extra_repr(self) -> str:
        """Shape and form."""
        return str(self.choice)


def _taken(x: Tensor, layer: SharedLinear | SharedConv) -> Tensor:
    """The input as the forms take it."""
    if x.device.type != layer.device.type:
        raise CompressError(
            f"{layer.choice.layer} was built for {layer.device.type} and is given a tensor on {x.device.type}; "
            f"build it again with device={x.device.type!r}"
        )
    if x.requires_grad:
        x = x.detach()
    return x if x.is_cuda or x.dtype is torch.float32 else x.float()


def _given(y: Tensor, x: Tensor) -> Tensor:
    """The output in the type of the input; for small layers a call that changes nothing is time that counts."""
    return y if y.dtype is x.dtype else y.to(x.dtype)
