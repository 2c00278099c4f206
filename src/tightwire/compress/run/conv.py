"""A convolution in each form: directly from the words when compressed, over unfolded patches when sparse."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tightwire.compress.run.form import Form, FormName
from tightwire.compress.run.geometry import Geometry
from tightwire.compress.run.linear import DenseLayer
from tightwire.compress.run.matrix import as_csr, as_words, csr_nbytes
from tightwire.compress.shared_weights import SharedWeights
from tightwire.kernels.words import LANES, Stretches, Words, slide


@dataclass(frozen=True, eq=False)
class SparseConv:
    """Patches unfolded, then torch's product of compressed sparse rows."""

    matrix: Tensor
    bias: Tensor | None
    geometry: Geometry

    @property
    def nbytes(self) -> int:
        """Of the weights."""
        return csr_nbytes(self.matrix)

    def __call__(self, x: Tensor) -> Tensor:
        """A batch of channels, rows, columns."""
        g = self.geometry
        x = g.padded(x)
        patch_NCL = F.unfold(x, g.kernel, dilation=g.dilation, stride=g.stride)
        images, columns, places = patch_NCL.shape
        y_RNL = torch.mm(self.matrix, patch_NCL.transpose(0, 1).reshape(columns, images * places))
        y = y_RNL.view(-1, images, places).transpose(0, 1).reshape(images, -1, *g.outputs(*x.shape[-2:]))
        return y if self.bias is None else y + self.bias[:, None, None]


@dataclass(frozen=True, eq=False)
class CompressedConv:
    """Every word is a number times a shifted view of the input: `geometry`."""

    matrix: Words
    bias: Tensor | None
    geometry: Geometry
    known: dict[tuple[int, int], Stretches] = field(default_factory=dict)  # by the size of the input

    @property
    def nbytes(self) -> int:
        """Of the weights."""
        return self.matrix.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        """A batch of channels, rows, columns."""
        g = self.geometry
        x = g.padded(x)
        (tall, wide), (rows, columns) = g.outputs(*x.shape[-2:]), g.phases(*x.shape[-2:])
        images, channels = x.shape[:2]
        dealt = g.dealt(x)
        size = dealt[0].numel() if images else 0
        flat = x.new_zeros(images * size + columns + LANES)  # what the last stretch reads too far
        flat[: images * size].view(dealt.shape).copy_(dealt)
        lanes = -(-tall * columns // LANES) * LANES
        if (rows, columns) not in self.known:
            self.known[rows, columns] = Stretches.of(self.matrix, g.starts(channels, rows, columns))
        at = self.known[rows, columns]
        y = x.new_empty(images, self.matrix.rows, tall, wide)
        for image in range(images):
            piece = flat[image * size :]
            y_RL = slide(self.matrix, piece, at=at, lanes=lanes)
            y[image] = y_RL[:, : tall * columns].view(-1, tall, columns)[:, :, :wide]
        return y if self.bias is None else y.add_(self.bias[:, None, None])


def conv_form(name: FormName, shared: SharedWeights, layer: nn.Conv1d | nn.Conv2d) -> Form:
    """The layer in one form on the CPU. All but the dense one take batches of two dimensions."""
    rows = shared.shape[0]
    bias = None if layer.bias is None else layer.bias.detach()[:rows]
    if name == "sparse":
        return SparseConv(as_csr(shared, layer.groups), bias, Geometry.of(layer))
    if name == "compressed":
        return CompressedConv(as_words(shared, layer.groups), bias, Geometry.of(layer))
    dense = nn.utils.skip_init(
        type(layer), layer.in_channels, rows, layer.kernel_size, stride=layer.stride, padding=layer.padding,
        dilation=layer.dilation, groups=layer.groups, bias=bias is not None, padding_mode=layer.padding_mode,
    )  # fmt: skip
    dense.weight = nn.Parameter(shared.dense(), requires_grad=False)
    if bias is not None:
        dense.bias = nn.Parameter(bias, requires_grad=False)
    return DenseLayer(dense)
