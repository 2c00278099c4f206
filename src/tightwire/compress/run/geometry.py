"""How a convolution reads its input, and where in memory each of its stretches begins.

The input is padded and, for a stride s, dealt into s · s phases, as if into s · s more channels: rows and columns 0, s,
2s … into the first, 1, s+1 … into the next. Within a phase every tap of the kernel is a shift, so one output channel is

    y[t] = Σ_c w_c · x[start_c + t],    t = row · (width of a phase) + column

over all inputs and taps c: no copy for each tap as in im2col. At the end of each row stand some sums over the edge;
they are cut off.

    padded, stride 1          start of tap (0, 0): 0    (0, 1): 1    (1, 0): 4
    ┌ a b c d ┐
    │ e f g h │               y = w₀₀·[a b c d e f g …] + w₀₁·[b c d e f g h …] + w₁₀·[e f g h …] …
    └ i j k l ┘
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

_Pair = tuple[int, int]


@dataclass(frozen=True)
class Geometry:
    """A convolution of one or two dimensions; one dimension is two of which the first is 1."""

    kernel: _Pair
    stride: _Pair
    dilation: _Pair
    before: _Pair  # padding
    after: _Pair
    mode: str
    groups: int

    @classmethod
    def of(cls, layer: nn.Conv1d | nn.Conv2d) -> Geometry:
        """That of a layer."""
        kernel, dilation = _pair(layer.kernel_size, 1), _pair(layer.dilation, 1)
        if layer.padding == "same":
            total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        else:
            total = [0, 0] if isinstance(layer.padding, str) else [2 * p for p in _pair(layer.padding, 0)]
        before = (total[0] // 2, total[1] // 2)
        after = (total[0] - before[0], total[1] - before[1])
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        return cls(kernel, _pair(layer.stride, 1), dilation, before, after, mode, layer.groups)

    def padded(self, x: Tensor) -> Tensor:
        """With the layer's padding; x is a batch of channels, rows, columns."""
        if not any(self.before + self.after):
            return x
        sides = (self.before[1], self.after[1], self.before[0], self.after[0])
        return F.pad(x, sides, mode=self.mode)

    def outputs(self, height: int, width: int) -> _Pair:
        """Rows and columns of the output, from those of the padded input."""
        rows, columns = (
            (side - d * (k - 1) - 1) // s + 1
            for side, d, k, s in zip((height, width), self.dilation, self.kernel, self.stride, strict=True)
        )
        return rows, columns

    def phases(self, height: int, width: int) -> _Pair:
        """Rows and columns of a phase."""
        return -(-height // self.stride[0]), -(-width // self.stride[1])

    def dealt(self, x: Tensor) -> Tensor:
        """The padded input by image, channel, phase, row and column."""
        (down, across), (rows, columns) = self.stride, self.phases(*x.shape[-2:])
        if self.stride == (1, 1):
            return x[:, :, None]
        x = F.pad(x, (0, columns * across - x.shape[-1], 0, rows * down - x.shape[-2]))
        x = x.view(*x.shape[:2], rows, down, columns, across).permute(0, 1, 3, 5, 2, 4)
        return x.reshape(*x.shape[:2], down * across, rows, columns)

    def starts(self, channels: int, rows: int, columns: int) -> NDArray[np.int64]:
        """Where the stretch of every channel and tap begins in an image of phases of that size."""
        (down, across), (tall, wide) = self.stride, self.kernel
        row = np.arange(tall)[:, None] * self.dilation[0]
        column = np.arange(wide)[None, :] * self.dilation[1]
        phase = row % down * across + column % across
        tap = (phase * rows + row // down) * columns + column // across
        channel = np.arange(channels)[:, None, None] * (down * across * rows * columns)
        return np.asarray((channel + tap).reshape(-1), np.int64)


def _pair(value: object, first: int) -> _Pair:
    assert isinstance(value, tuple)
    return (first, value[0]) if len(value) == 1 else (value[0], value[1])
