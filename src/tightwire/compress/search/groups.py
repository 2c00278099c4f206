"""Channels that go together: found by torch-pruning's dependency graph, read here as index maps.

    a filter's output → its norms, what it is added to, its place in a concatenation, depthwise layers
                      → the columns of every layer that reads it

A channel that no reader's column looks at any more is gone, whatever its writers say: so policies are measured by
zeroing columns, and only the policy that is kept is cut out. Fang, Ma, Song, Mi, Wang: DepGraph. CVPR 2023.
Channels of a grouped convolution go in the same places of every group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tightwire.compress.errors import CompressError
from tightwire.compress.prune.removal import fixed_layers, renew_, torch_pruning
from tightwire.compress.search.layers import Layer

_KNOWN = (nn.Linear, nn.Conv2d, nn.BatchNorm1d, nn.BatchNorm2d)


@dataclass(frozen=True, eq=False)
class Group:
    """``width`` channels: who writes them, and which columns of whom read each. ``parts`` must lose the same places."""

    name: str
    width: int
    writers: tuple[str, ...]
    readers: Mapping[str, NDArray[np.intp]]  # layer: its columns, a row for each channel of the group
    norms: int  # numbers that batch norms keep of each channel (scale and shift)
    parts: int = 1


def find_groups(model: nn.Module, layers: Mapping[str, Layer], example: Tensor) -> list[Group]:
    """All groups that may lose channels, in the order of the layers that write them first."""
    pruning = torch_pruning()
    with torch.enable_grad():  # the graph is traced by autograd
        graph = pruning.DependencyGraph().build_dependency(model, example)
    fixed = fixed_layers(model, example)
    names = {module: name for name, module in model.named_modules()}
    place = {name: at for at, name in enumerate(layers)}
    found = []
    for items in graph.get_all_groups(ignored_layers=fixed, root_module_types=[nn.Conv2d, nn.Linear]):
        group = _read(graph, items, names, layers)
        if group is not None and group.readers:
            found.append(group)
    if not found:
        raise CompressError("no channels of this network can be removed; prune single weights (--prune weights)")
    return sorted(found, key=lambda group: place[group.name])


def _read(graph: Any, items: Any, names: Mapping[nn.Module, str], layers: Mapping[str, Layer]) -> Group | None:
    """A group of torch-pruning as ours; None where it meets a module of which we do not know what it does."""
    width = len(items[0].idxs)
    writers, readers, norms, parts = [], {}, 0, 1
    for item in items:
        module = item.dep.target.module
        if module not in names or isinstance(module, nn.Identity):
            continue  # an operation without weights
        if not isinstance(module, _KNOWN):
            return None
        name = names[module]
        if graph.is_out_channel_pruning_fn(item.dep.handler):
            if name in layers:
                writers.append(name)
            else:
                norms += 2
        else:
            columns = _columns(item, width)
            if columns is None:
                return None
            readers[name] = columns
        groups = layers[name].groups if name in layers and not layers[name].depthwise else 1
        parts = max(parts, groups)
    first = min(writers, key=list(layers).index)
    return Group(first, width, tuple(writers), readers, norms, parts)


def _columns(item: Any, width: int) -> NDArray[np.intp] | None:
    """Which columns of a reader belong to each channel: as many for all, or it cannot be said."""
    root, local = np.asarray(item.root_idxs), np.asarray(item.idxs)
    each = len(local) // width
    order = np.lexsort((local, root))
    if len(local) != each * width or not np.array_equal(root[order], np.repeat(np.arange(width), each)):
        return None
    columns: NDArray[np.intp] = local[order].reshape(width, each).astype(np.intp)
    return columns


@torch.enable_grad()
def cut_(model: nn.Module, example: Tensor, kept: Mapping[str, NDArray[np.intp]]) -> None:
    """Take all channels but those ``kept`` out of the groups of these names, for good."""
    graph = torch_pruning().DependencyGraph().build_dependency(model, example)
    for name, channels in kept.items():
        root = model.get_submodule(name)
        pruner = graph.get_pruner_of_module(root)
        gone = sorted(set(range(pruner.get_out_channels(root))) - {int(c) for c in channels})
        if gone:
            graph.get_pruning_group(root, pruner.prune_out_channels, gone).prune()
    renew_(model)
