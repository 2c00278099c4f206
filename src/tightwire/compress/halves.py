"""Plain numbers rounded to half precision before they are written: centroids, biases, norms.

A file keeps every number exactly, in the smallest type that can hold it; what was rounded to halves takes two bytes
instead of four. Deep Compression counts 32 bits for them; on small networks that would be a tenth of the file. A tensor
with numbers that halves do not reach (above 65504), or not finite as halves, stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from tightwire.compress.shared_weights import SharedWeights


def round_shared(shared: SharedWeights) -> SharedWeights:
    """The same codes, the centroids at the nearest halves."""
    return SharedWeights(shared.shape, shared.code_N, _half(torch.from_numpy(shared.codebook_K)).numpy())


@torch.no_grad()
def round_rest_(model: nn.Module, shared: Mapping[str, SharedWeights]) -> None:
    """Round every floating-point number of the model that is not shared, in place."""
    for name, tensor in model.state_dict().items():
        if name not in shared and tensor.is_floating_point():
            tensor.copy_(_half(tensor))


def _half(number: Tensor) -> Tensor:
    """The nearest halves as float32.

    >>> _half(torch.tensor([0.1, 1.0])).tolist(), _half(torch.tensor([1e6])).tolist()
    ([0.0999755859375, 1.0], [1000000.0])
    """
    rounded = number.half().to(number.dtype)
    if not bool(torch.isfinite(rounded).all()):
        return number
    return rounded
