"""Multiply-adds, parameters and bytes as a `Cost`: for channels, layer by layer; for single weights, unit by unit.

    channels   multiply-adds  positions·area·in·out/groups          parameters  area·in·out/groups + out, and the norms
               bytes          ⌈area·in·out/groups · bits / 8⌉ + …   no coder takes more than the bits of a code
    weights    both are proportional to what is kept; bytes are those of the coder, measured for every choice

Bytes of channels are a bound that fine-tuning cannot break. Bytes of pruned weights are of the weights as they are;
`shrink` counts again when it writes the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from tightwire.compress.artifact.numbers import pack, pack_codebook
from tightwire.compress.code import encode
from tightwire.compress.code.choose import CODERS
from tightwire.compress.halves import round_shared
from tightwire.compress.prune.masks import prunable
from tightwire.compress.search.cost import Cost, Curve, Floats, Reads, Term
from tightwire.compress.search.groups import Group
from tightwire.compress.search.layers import Layer
from tightwire.compress.search.units import Unit
from tightwire.compress.search.weights import Weights
from tightwire.compress.share.tensors import share
from tightwire.compress.shared_weights import SharedWeights
from tightwire.compress.size import Sizer

Curves: TypeAlias = Callable[[Layer], Curve]
_HEADER_NBYTES = 12  # that a tensor's row in the header may grow by: digits of shapes and lengths


def channel_cost(
    name: str, layers: Mapping[str, Layer], groups: Sequence[Group], units: Sequence[Unit], curves: Curves, *,
    norm: float = 0.0, fixed: float = 0.0,
) -> Cost:  # fmt: skip
    """The sum over layers of ``curves``; ``norm`` is what each number of a batch norm costs."""
    kept = tuple(np.array([choice.kept for choice in unit.choices], np.float64) for unit in units)
    own = tuple(norm * group.norms * count for group, count in zip(groups, kept, strict=True))
    terms = tuple(_term(layer, groups, curves(layer)) for layer in layers.values())
    return Cost(name, kept, own, terms, fixed)


def _term(layer: Layer, groups: Sequence[Group], curve: Curve) -> Term:
    writes = [u for u, group in enumerate(groups) if layer.name in group.writers]
    outputs = Reads(0 if writes else layer.shape.n, tuple((u, 1) for u in writes))
    if layer.depthwise:
        return Term(outputs, outputs, curve)
    reads = [(u, group.readers[layer.name]) for u, group in enumerate(groups) if layer.name in group.readers]
    covered = sum(columns.size for _, columns in reads)
    return Term(Reads(layer.shape.c - covered, tuple((u, c.shape[1]) for u, c in reads)), outputs, curve)


def flops_curve(layer: Layer) -> Curve:
    """Multiply-adds for one example."""
    each = layer.positions * layer.area
    if layer.depthwise:
        return lambda inputs, outputs: each * outputs
    return lambda inputs, outputs: each * inputs * outputs / layer.groups


def params_curve(layer: Layer) -> Curve:
    """Weights and biases."""
    bias = float(layer.module.bias is not None)
    if layer.depthwise:
        return lambda inputs, outputs: (layer.area + bias) * outputs
    return lambda inputs, outputs: layer.area * inputs * outputs / layer.groups + bias * outputs


def bytes_curve(bits: int) -> Curves:
    """A layer in codes of so many bits, and its bias in halves."""

    def of(layer: Layer) -> Curve:
        bias, divided = 2.0 * (layer.module.bias is not None), 1 if layer.depthwise else layer.groups

        def cost(inputs: Floats, outputs: Floats) -> Floats:
            weights = layer.area * (outputs if layer.depthwise else inputs * outputs / divided)
            return np.asarray(np.ceil(weights * bits / 8) + bias * outputs)

        return cost

    return of


def parameters_beside(model: nn.Module, layers: Mapping[str, Layer], groups: Sequence[Group]) -> int:
    """Parameters that no curve counts: norms and others of channels that always stay."""
    counted = sum(p.numel() for layer in layers.values() for p in layer.module.parameters())
    counted += sum(group.norms * group.width for group in groups)
    return sum(p.numel() for p in model.parameters()) - counted


def weight_cost(name: str, units: Sequence[Unit], each: Sequence[float], *, fixed: float) -> Cost:
    """Proportional to the weights kept: ``each`` is what one of them costs, ``fixed`` what is never pruned."""
    kept = tuple(np.array([choice.kept for choice in unit.choices], np.float64) for unit in units)
    return Cost(name, kept, tuple(e * count for e, count in zip(each, kept, strict=True)), (), fixed)


def coded_cost(model: nn.Module, units: Sequence[Unit], weights: Weights, sizer: Sizer) -> Cost:
    """The bytes of the real file: every choice of every layer coded by rANS, and all else of the file as it is.

    The file takes the smallest of several coders, so it is never larger.
    """
    own = tuple(
        np.array([coded_nbytes(weights.shared(u, level)) for level in range(len(unit.choices))], np.float64)
        for u, unit in enumerate(units)
    )
    kept = tuple(np.array([choice.kept for choice in unit.choices], np.float64) for unit in units)
    smallest = [int(np.argmin(sizes)) for sizes in own]
    shared = {unit.name: weights.shared(u, smallest[u]) for u, unit in enumerate(units)}
    rest = sizer.whole(model, shared) - sum(sizer.layer(tensor) for tensor in shared.values())
    return Cost("bytes", kept, own, (), float(rest + _HEADER_NBYTES * len(units)))


def coded_nbytes(shared: SharedWeights) -> int:
    """Codes by rANS, and the codebook in halves."""
    centroids = len(shared.codebook_K)
    coded = encode(shared.code_N, shape=shared.shape, centroids=centroids, coders=(CODERS["fixed"], CODERS["rans"]))
    return len(coded.payload) + (len(pack_codebook(round_shared(shared).codebook_K).payload) if centroids else 0)


@torch.no_grad()
def channel_bytes_beside(
    model: nn.Module, layers: Mapping[str, Layer], groups: Sequence[Group], *, bits: int, sizer: Sizer
) -> float:
    """Header, checksums, codebooks, and the numbers of channels that always stay."""
    shared = {name: share(weight, (1 << bits) - 1) for name, weight in prunable(model).items()}
    plain = {name: tensor.cpu() for name, tensor in model.state_dict().items() if name not in shared}
    packed = {name: len(pack(_stored(tensor)).payload) for name, tensor in plain.items()}
    header = sizer.whole(model, shared) - sum(map(sizer.layer, shared.values())) - sum(packed.values())
    whole_numbers = sum(packed[name] for name, tensor in plain.items() if not tensor.is_floating_point())
    halves = sum(tensor.numel() for tensor in plain.values() if tensor.is_floating_point())
    counted = sum(layer.module.bias.numel() for layer in layers.values() if layer.module.bias is not None)
    counted += sum(2 * group.norms * group.width for group in groups)  # scale, shift, mean and variance
    codebooks = len(shared) * (2 << bits)
    return float(max(header, 0) + whole_numbers + 2 * (halves - counted) + codebooks + _HEADER_NBYTES * len(packed))


def _stored(tensor: Tensor) -> Any:
    return tensor.half().float().numpy() if tensor.is_floating_point() else tensor.numpy().astype(np.int64)
