"""Centroids trained, assignments held.

    dL/dc_k = Σ_i dL/dw_i · 1(code_i = k)        a SUM: each weight that shares the centroid moves it

Han, Mao, Dally: Deep Compression. ICLR 2016, section 3.3 and equation 3. The network computes with dense weights as
always; before an optimizer's step their gradients are summed up by code, after it the centroids are written back.

    centroids = Centroids(model, shared)
    optimizer = torch.optim.Adam(centroids.parameters())     # centroids, biases, norms: not the weights themselves
    …  loss.backward();  centroids.gather_();  optimizer.step();  centroids.write_()
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from tightwire.compress.errors import CompressError
from tightwire.compress.shared_weights import SharedWeights

_LANES = 1024  # partial sums a centroid: many additions to one address wait for each other on a GPU


@dataclass(frozen=True, eq=False)
class _Layer:
    """One tensor: S weights kept, of K centroids."""

    weight: nn.Parameter
    place_S: Tensor  # noqa: N815
    code_S: Tensor  # noqa: N815
    lane_S: Tensor  # noqa: N815
    center_K: nn.Parameter  # noqa: N815
    shared: SharedWeights


class Centroids:
    """The centroids of some weights of a model, as parameters."""

    def __init__(self, model: nn.Module, shared: Mapping[str, SharedWeights]) -> None:
        weights = dict(model.named_parameters())
        self._others = [weight for name, weight in weights.items() if name not in shared]
        self._layers: dict[str, _Layer] = {}
        for name, tensor in shared.items():
            if name not in weights or tuple(weights[name].shape) != tensor.shape:
                raise CompressError(f"the model has no parameter {name} of shape {tensor.shape}")
            self._layers[name] = _layer(weights[name], tensor)
        self.write_()

    def parameters(self) -> list[nn.Parameter]:
        """What an optimizer trains: all centroids, and every parameter that is not shared."""
        return [*self.centers(), *self._others]

    def centers(self) -> list[nn.Parameter]:
        """The centroids alone, one parameter a layer."""
        return [layer.center_K for layer in self._layers.values() if layer.center_K.numel()]

    def begin(self, optimizer: torch.optim.Optimizer) -> None:
        """Nothing to prepare: with `before_step` and `after_step`, a constraint of `retrain.train`."""

    def decide(self, passed: float) -> None:
        """Assignments are held; nothing is decided any more."""

    def before_step(self) -> None:
        """Sum the gradients."""
        self.gather_()

    def after_step(self) -> None:
        """Write the centroids back."""
        self.write_()

    @torch.no_grad()
    def gather_(self) -> None:
        """Sum the gradients of the weights into those of their centroids, and clear them."""
        for layer in self._layers.values():
            gradient = layer.weight.grad
            if gradient is None or not layer.center_K.numel():
                continue
            partial = gradient.new_zeros(layer.center_K.numel() * _LANES)
            partial.index_add_(0, layer.lane_S, gradient.flatten()[layer.place_S])
            layer.center_K.grad = partial.view(-1, _LANES).sum(1)
            layer.weight.grad = None

    @torch.no_grad()
    def write_(self) -> None:
        """Write the centroids into the weights; pruned ones are zero."""
        for layer in self._layers.values():
            flat_N = torch.zeros_like(layer.weight).flatten()
            flat_N[layer.place_S] = layer.center_K[layer.code_S]
            layer.weight.copy_(flat_N.view_as(layer.weight))

    def state(self) -> dict[str, Tensor]:
        """The centroids."""
        return {name: layer.center_K for name, layer in self._layers.items()}

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        """Centroids as they were, and the weights with them."""
        for name, center_K in state.items():
            self._layers[name].center_K.copy_(center_K)
        self.write_()

    def shared(self) -> dict[str, SharedWeights]:
        """The tensors as they are now; centroids that overtook each other are sorted, and the codes with them."""
        return {name: _sorted(layer) for name, layer in self._layers.items()}


def _layer(weight: nn.Parameter, shared: SharedWeights) -> _Layer:
    code_N = torch.from_numpy(shared.code_N.astype(np.int64)).to(weight.device)
    place_S = torch.nonzero(code_N).flatten()
    code_S = code_N[place_S] - 1
    lane_S = code_S * _LANES + torch.arange(len(code_S), device=weight.device) % _LANES
    center_K = nn.Parameter(torch.from_numpy(shared.codebook_K.copy()).to(weight))
    return _Layer(weight, place_S, code_S, lane_S, center_K, shared)


def _sorted(layer: _Layer) -> SharedWeights:
    center_K = layer.center_K.detach().float().cpu().numpy()
    order_K = np.argsort(center_K, kind="stable")
    rank = np.zeros(len(center_K) + 1, layer.shared.code_N.dtype)
    rank[order_K + 1] = np.arange(1, len(center_K) + 1)
    return SharedWeights(layer.shared.shape, rank[layer.shared.code_N], center_K[order_K].copy())
