"""How large a shrunk network is: by an estimate, or by the coder that will write it.

A `Sizer` is passed in, so that pruning, sharing and the search over both need no coder, and count its bytes if there is
one. The size that a ratio is taken of is that of all parameters in four bytes each; running means of batch norms are
left out there, although the file has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import nn

from tightwire.compress.share.rate import entropy_bits, estimate_nbytes
from tightwire.compress.shared_weights import SharedWeights


class Sizer(Protocol):
    """Bytes of layers and of whole files."""

    def layer(self, shared: SharedWeights) -> int:
        """The coded bytes of one tensor."""

    def whole(self, model: nn.Module, shared: Mapping[str, SharedWeights]) -> int:
        """The bytes of everything: shared tensors, and all else of the model as it will be stored."""


class Estimate:
    """By entropy: layers as `estimate_nbytes` has them, everything else in four bytes a number."""

    def layer(self, shared: SharedWeights) -> int:
        """By the frequencies of codes."""
        return estimate_nbytes(shared)

    def whole(self, model: nn.Module, shared: Mapping[str, SharedWeights]) -> int:
        """Layers, and 4 bytes for every number that is not shared."""
        rest: int = sum(
            t.numel() for name, t in model.state_dict().items() if name not in shared and t.is_floating_point()
        )
        return sum(self.layer(tensor) for tensor in shared.values()) + 4 * rest


def dense_nbytes(model: nn.Module) -> int:
    """All parameters in four bytes each."""
    return 4 * sum(parameter.numel() for parameter in model.parameters())


def layer_figures(shared: Mapping[str, SharedWeights], sizer: Sizer) -> list[dict[str, Any]]:
    """What a report says of every layer."""
    return [
        {
            "layer": name,
            "shape": list(tensor.shape),
            "density": tensor.density,
            "kept": tensor.nnz,
            "centroids": len(tensor.codebook_K),
            "bits": entropy_bits(tensor.code_N[tensor.code_N != 0]),
            "nbytes": sizer.layer(tensor),
            "dense_nbytes": 4 * tensor.numel,
        }
        for name, tensor in shared.items()
    ]
