"""A linear layer in each form: y = W x + b."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tightwire.compress.run.form import Form, FormName
from tightwire.compress.run.matrix import as_csr, as_words, csr_nbytes
from tightwire.compress.shared_weights import SharedWeights
from tightwire.kernels.words import Words, times


@dataclass(frozen=True, eq=False)
class DenseLayer:
    """The layer itself, with the decoded weights."""

    layer: nn.Module

    @property
    def nbytes(self) -> int:
        """Of the weights."""
        weight = self.layer.weight
        assert isinstance(weight, Tensor)
        return weight.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        """What torch computes."""
        y: Tensor = self.layer.forward(x)  # made here, so nobody has hooked anything to it
        return y


@dataclass(frozen=True, eq=False)
class SparseLinear:
    """Torch's product of compressed sparse rows."""

    matrix: Tensor
    bias: Tensor | None

    @property
    def nbytes(self) -> int:
        """Of the weights."""
        return csr_nbytes(self.matrix)

    def __call__(self, x: Tensor) -> Tensor:
        """A single vector goes the faster way of `torch.mv`."""
        x_BC = x.reshape(-1, x.shape[-1])
        y = torch.mv(self.matrix, x_BC[0])[None] if len(x_BC) == 1 else torch.mm(self.matrix, x_BC.T).T
        return _biased(y, self.bias).reshape(*x.shape[:-1], -1)


@dataclass(frozen=True, eq=False)
class CompressedLinear:
    """Codes and codebook, as words."""

    matrix: Words
    bias: Tensor | None

    @property
    def nbytes(self) -> int:
        """Of the weights."""
        return self.matrix.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        """Any batch."""
        y = times(self.matrix, x.reshape(-1, x.shape[-1]))
        return _biased(y, self.bias).reshape(*x.shape[:-1], -1)


def _biased(y: Tensor, bias: Tensor | None) -> Tensor:
    return y if bias is None else y.add_(bias)


def linear_form(name: FormName, shared: SharedWeights, layer: nn.Linear) -> Form:
    """The layer in one form on the CPU."""
    bias = None if layer.bias is None else layer.bias.detach()[: shared.shape[0]]
    if name == "sparse":
        return SparseLinear(as_csr(shared), bias)
    if name == "compressed":
        return CompressedLinear(as_words(shared), bias)
    dense = nn.utils.skip_init(nn.Linear, shared.shape[1], shared.shape[0], bias=bias is not None)
    dense.weight = nn.Parameter(shared.dense(), requires_grad=False)
    if bias is not None:
        dense.bias = nn.Parameter(bias, requires_grad=False)
    return DenseLayer(dense)
