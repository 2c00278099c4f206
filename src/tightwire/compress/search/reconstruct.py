"""Columns that are left make good for those that are gone: least squares, from statistics gathered once.

    min over W_S  Σ_x ‖W·x − W_S·x_S‖²    →    W_Sᵀ = (G_SS + ridge)⁻¹ G_S: Wᵀ,        G = Σ_x x·xᵀ

x is what one application of the kernel sees (im2col for k×k), with a 1 below where the layer has a bias. Since the
target is W·x itself, G is all there is to know: any subset of channels is refitted without looking at data again.
He, Zhang, Sun: Channel Pruning for Accelerating Very Deep Neural Networks. ICCV 2017, arXiv 1707.06168, equation 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from tightwire.compress.search.layers import Layer

POINTS = 16  # positions of each example that are looked at
_RIDGE = 1e-4  # of the mean square of a column
_MOST_COLUMNS = 6000  # beyond, columns are only zeroed: the statistics would not fit


@dataclass(frozen=True, eq=False)
class Statistics:
    """G of one layer, D×D: D = columns × area, and one more for a bias; and W as it was, outputs × D.

    ``rows`` is how many x there were.
    """

    gram_DD: Tensor  # noqa: N815
    weight_OD: Tensor  # noqa: N815
    rows: int

    @property
    def mean_DD(self) -> Tensor:  # noqa: N802
        """E[x·xᵀ]."""
        return self.gram_DD / self.rows

    def matrix(self, version: Mapping[str, Tensor], name: str) -> Tensor:
        """W of another version of the layer, shaped as W here; a bias that it does not have is as it was."""
        weight_OD = version[f"{name}.weight"].flatten(1)
        if weight_OD.shape == self.weight_OD.shape:
            return weight_OD
        bias = version.get(f"{name}.bias", self.weight_OD[:, -1])
        return torch.cat([weight_OD, bias[:, None]], 1)


@torch.no_grad()
def gather(model: nn.Module, layers: Sequence[Layer], batches: Sequence[Tensor]) -> dict[str, Statistics]:
    """The statistics of all these layers, from forward passes over some batches. Grouped layers have none."""
    wanted = [layer for layer in layers if layer.groups == 1 and layer.shape.c * layer.area <= _MOST_COLUMNS]
    grams: dict[str, Tensor] = {}
    counts: Counter[str] = Counter()
    random = torch.Generator().manual_seed(0)
    hooks = [layer.module.register_forward_hook(_add_to(grams, counts, layer, random)) for layer in wanted]
    was_training = model.training
    try:
        model.eval()
        for batch in batches:
            model(batch)
    finally:
        model.train(was_training)
        for hook in hooks:
            hook.remove()
    return {layer.name: Statistics(grams[layer.name], _matrix(layer.module), counts[layer.name]) for layer in wanted}


def _add_to(grams: dict[str, Tensor], counts: Counter[str], layer: Layer, random: torch.Generator) -> Any:
    def add(module: nn.Module, args: tuple[Tensor, ...], out: Tensor) -> None:
        rows = _rows(layer.module, args[0], random).float()
        gram = rows.T @ rows
        grams[layer.name] = grams[layer.name] + gram if layer.name in grams else gram
        counts[layer.name] += len(rows)

    return add


def _rows(module: nn.Linear | nn.Conv2d, x: Tensor, random: torch.Generator) -> Tensor:
    """What the kernel sees at some positions, a row each."""
    if isinstance(module, nn.Linear):
        rows = x.reshape(-1, x.shape[-1])
    else:
        padding: Any = module.padding
        seen = F.unfold(x, module.kernel_size, module.dilation, padding, module.stride)  # batch, columns, positions
        index_P = torch.randperm(seen.shape[-1], generator=random)[:POINTS].to(x.device)
        rows = seen[:, :, index_P].transpose(1, 2).reshape(-1, seen.shape[1])
    return torch.cat([rows, rows.new_ones(len(rows), 1)], 1) if module.bias is not None else rows


def _matrix(module: nn.Linear | nn.Conv2d) -> Tensor:
    weight = module.weight.detach().flatten(1)
    return weight.clone() if module.bias is None else torch.cat([weight, module.bias.detach()[:, None]], 1)


@torch.no_grad()
def refit(layer: Layer, kept: NDArray[np.intp], known: Mapping[str, Statistics]) -> dict[str, Tensor]:
    """Weight (and bias) of a layer that reads only the columns ``kept``; the others are zero."""
    weight = layer.module.weight.detach()
    if layer.name not in known or len(kept) == layer.shape.c:
        return {f"{layer.name}.weight": _zeroed(weight, kept, layer)}
    seen = known[layer.name]
    index = torch.from_numpy((kept[:, None] * layer.area + np.arange(layer.area)).ravel()).to(weight.device)
    if layer.module.bias is not None:
        index = torch.cat([index, index.new_tensor([seen.weight_OD.shape[1] - 1])])
    left = _solve(seen.gram_DD[index][:, index], seen.gram_DD[index] @ seen.weight_OD.T)
    matrix = torch.zeros_like(seen.weight_OD)
    matrix[:, index] = left.T
    made = {f"{layer.name}.weight": matrix[:, : weight[0].numel()].reshape(weight.shape)}
    return made if layer.module.bias is None else made | {f"{layer.name}.bias": matrix[:, -1].clone()}


def _zeroed(weight: Tensor, kept: NDArray[np.intp], layer: Layer) -> Tensor:
    """The weight with all other columns zero; in a grouped layer, of every group the same."""
    columns = np.unique(kept % weight.shape[1]) if layer.groups > 1 else kept
    mask = torch.zeros(weight.shape[1], dtype=weight.dtype, device=weight.device)
    mask[torch.from_numpy(columns).to(weight.device)] = 1
    return weight * mask.view(1, -1, *[1] * (weight.ndim - 2))


def _solve(gram: Tensor, right: Tensor) -> Tensor:
    """By Cholesky; with more ridge where numbers are too close to singular."""
    mean = gram.diagonal().mean().clamp(min=1e-12)
    eye = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    for ridge in (_RIDGE, 1e-2):
        factor, failed = torch.linalg.cholesky_ex(gram + ridge * mean * eye)
        if not bool(failed):
            break
    return torch.cholesky_solve(right, factor)
