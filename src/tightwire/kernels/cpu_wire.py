"""What `TopK.write` and `TopK.read` do, by compiled loops where there are some: the same bytes, the same numbers.

Compiled are float32 values behind 16-bit or Rice-coded gaps, and log8 values behind Rice-coded ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tightwire.algebra.errors import PayloadError
from tightwire.algebra.tensors import Spec
from tightwire.algebra.world import At
from tightwire.codecs.bitpack import most_gaps
from tightwire.codecs.levels import tables
from tightwire.codecs.rice import likely_ks
from tightwire.codecs.topk import COUNT_NBYTES, TopK
from tightwire.kernels.compiled import compiled


def _loops(top: TopK, at: At) -> Any:
    known = (top.values, top.positions(at)) in (("float32", "16bit"), ("float32", "rice"), ("log8", "rice"))
    return compiled("numba", "writing sparse gradients", "wire") if known else None


def write(top: TopK, index_K: Tensor, value_K: Tensor, spec: Spec, at: At) -> tuple[Tensor, Tensor]:
    """Ascending positions and their values as bytes, and the values that the bytes stand for."""
    loops = _loops(top, at)
    if loops is None or not index_K.numel():
        return top.write(index_K, value_K, spec, at)
    index, value = index_K.numpy(), value_K.numpy()
    if top.positions(at) == "16bit":
        most = most_gaps(len(index), spec.numel)
        gaps, values = np.empty(most, np.uint16), np.empty(most, np.float32)
        n = loops.write_gaps(index, value, gaps, values)
        wire = np.concatenate([values[:n].view(np.uint8), gaps[:n].view(np.uint8)])
        return torch.from_numpy(wire), value_K
    if top.values == "float32":
        return torch.from_numpy(_rice(loops, index, value.view(np.uint8), spec)), value_K
    value_bytes, rounded = _levels(loops, index, value, spec)
    return torch.from_numpy(_rice(loops, index, value_bytes, spec)), torch.from_numpy(rounded)


def _rice(loops: Any, index: Any, value_bytes: Any, spec: Spec) -> Any:
    """How many there are, the values, the gaps."""
    ks = likely_ks(len(index), spec.numel)
    nbytes = [loops.rice_nbytes(index, k) for k in ks]
    best = nbytes.index(min(nbytes))
    wire = np.zeros(COUNT_NBYTES + len(value_bytes) + 1 + nbytes[best], np.uint8)
    wire[:COUNT_NBYTES].view(np.int32)[0] = len(index)
    wire[COUNT_NBYTES : COUNT_NBYTES + len(value_bytes)] = value_bytes
    loops.write_rice(index, ks[best], wire[COUNT_NBYTES + len(value_bytes) :])
    return wire


def _levels(loops: Any, index: Any, value: Any, spec: Spec) -> tuple[Any, Any]:
    """Scales and codes, and the values that they stand for."""
    group = _groups(loops, index, spec)
    scale = np.empty((len(spec.segments), 2), np.float32)
    loops.extremes(value, group, scale)
    table, between = (tensor.numpy() for tensor in tables(torch.from_numpy(scale)))
    code, rounded = np.empty(len(value), np.uint8), np.empty(len(value), np.float32)
    loops.write_levels(value, group, between, table, code, rounded)
    return np.concatenate([scale.view(np.uint8).reshape(-1), code]), rounded


def _groups(loops: Any, index: Any, spec: Spec) -> Any:
    group = np.empty(len(index), np.int64)
    loops.groups(index, np.array([s.offset + s.numel for s in spec.segments]), group)
    return group


def read(top: TopK, wire: Tensor, spec: Spec, at: At) -> tuple[Any, Any]:
    """Positions and values as arrays; fillers are positions of value 0."""
    loops = _loops(top, at)
    if loops is None:
        index_T, value_T = top.read(wire, spec, at)
        return index_T.numpy(), value_T.numpy()
    begin, end, count = top.frame(wire, spec, at)
    body, tail = wire[begin:end].clone().numpy(), wire[end:].clone().numpy()
    index = np.empty(count, np.int64)
    if top.positions(at) == "16bit":
        found = loops.read_gaps(tail.view(np.uint16), spec.numel, index)
    else:
        found = loops.read_rice(tail, spec.numel, index) if count else 0
    if found != count:
        raise PayloadError(f"a top-k payload whose gaps do not lead to {count} of {spec.numel} positions")
    if top.values == "float32":
        return index, body.view(np.float32)
    value = np.empty(count, np.float32)
    if count:
        scale = torch.from_numpy(body[: 8 * len(spec.segments)].view(np.float32).reshape(-1, 2))
        loops.read_levels(body[8 * len(spec.segments) :], _groups(loops, index, spec), tables(scale)[0].numpy(), value)
    return index, value
