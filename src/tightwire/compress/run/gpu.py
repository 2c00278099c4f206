"""A layer on a GPU: linear layers from packed codes (`kernels.codebook`) or decoded, everything else decoded.

Of the two packed layouts the one that takes fewer bytes is built; whether it is faster than the decoded weights is
measured, on the device's own clock, with its cache emptied before every turn. Convolutions run densely there: their
weights are read once for a whole image, so that bytes are not what they wait for.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor, nn

from tightwire.compress.errors import CompressError
from tightwire.compress.run.conv import conv_form
from tightwire.compress.run.form import Form, FormName
from tightwire.compress.run.linear import DenseLayer, linear_form
from tightwire.compress.shared_weights import SharedWeights
from tightwire.kernels.codebook import times
from tightwire.kernels.codebook_layout import Codes, listed, packed

_MOST_CENTROIDS = 255
_ROUNDS = 7
_EVICTS = 256 << 20  # bytes that push everything else out of the cache
_NAMES: tuple[FormName, ...] = ("dense", "compressed")


@dataclass(frozen=True, eq=False)
class CodedLinear:
    """Codes and codebook on the GPU."""

    matrix: Codes
    bias: Tensor | None

    @property
    def nbytes(self) -> int:
        """Of the weights."""
        return self.matrix.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        """Any batch; from 16 on the weights are decoded first."""
        y = times(self.matrix, x.reshape(-1, x.shape[-1]))
        y = y if self.bias is None else y.add_(self.bias)
        return y.reshape(*x.shape[:-1], -1)


def coded(shared: SharedWeights, device: torch.device) -> Codes:
    """The layout of fewer bytes: 4 or 8 bits for every weight, or 32 for those that are not zero."""
    bits = 4 if len(shared.codebook_K) + (shared.nnz < shared.numel) <= 16 else 8
    make = listed if 32 * shared.nnz < bits * shared.numel else packed
    return make(shared.code_N, rows=shared.shape[0], codebook_K=shared.codebook_K, device=device)


def gpu_form(
    name: FormName, shared: SharedWeights, layer: nn.Linear | nn.Conv1d | nn.Conv2d, device: torch.device
) -> Form:
    """The layer in one form on a GPU."""
    if name == "sparse":
        raise CompressError("torch's sparse product is not used on a GPU; ask for form='dense' or 'compressed'")
    if isinstance(layer, nn.Linear) and name == "compressed":
        if len(shared.codebook_K) > _MOST_CENTROIDS:
            raise CompressError(
                f"{len(shared.codebook_K)} centroids are more than the {_MOST_CENTROIDS} that run from codes on a GPU; "
                "ask for form='dense'"
            )
        bias = None if layer.bias is None else layer.bias.detach()
        return CodedLinear(coded(shared, device), bias)
    dense = linear_form("dense", shared, layer) if isinstance(layer, nn.Linear) else conv_form("dense", shared, layer)
    assert isinstance(dense, DenseLayer)
    dense.layer.to(device=device, dtype=layer.weight.dtype)
    return dense


def can_be_coded(layer: nn.Module, shared: SharedWeights) -> bool:
    """Whether there is anything to choose from."""
    return isinstance(layer, nn.Linear) and len(shared.codebook_K) <= _MOST_CENTROIDS


@torch.no_grad()
def measure(layer: nn.Linear, shared: SharedWeights, inputs: tuple[int, ...], device: torch.device) -> dict[str, float]:
    """Seconds of each form on an input of this shape, in turns; the median of some rounds."""
    x = torch.rand(inputs, device=device).to(layer.weight.dtype)
    forms = {name: gpu_form(name, shared, layer, device) for name in _NAMES}
    evict = torch.empty(_EVICTS, dtype=torch.uint8, device=device)
    for form in forms.values():
        form(x)  # compiles, and allocates
    seconds: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(_ROUNDS):
        for name, form in forms.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            for _ in range(4):  # takes longer than the launch of what follows, which is therefore not measured
                evict.zero_()
            begin.record()
            form(x)
            end.record()
            end.synchronize()
            seconds[name].append(begin.elapsed_time(end) / 1000)
    return {name: median(times) for name, times in seconds.items()}
