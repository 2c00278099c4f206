"""Time as a budget: a table of timed layers on this device, kept in a file, and made true by timing whole networks.

    layer     a grid of (channels in, channels out), each timed alone; between grid points by lines; never falling
    network   Σ layers is off by what lies between layers; networks at several shares of channels are timed as a whole,
              and the budget is turned into the sum of layers at which they take it

Layers of the same kind and shape share a row, so a table is of use to other networks too. Yang et al.: NetAdapt. ECCV
2018, arXiv 1804.03230, section 3.3, builds such tables layer by layer.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tightwire.compress.errors import CompressError
from tightwire.compress.search.cost import Curve, Floats
from tightwire.compress.search.layers import Layer
from tightwire.compress.search.timing import time_ns
from tightwire.files import write_json

_POINTS = 6


@dataclass(frozen=True)
class Timed:
    """One kind of layer: nanoseconds for counts of channels in (rows) and out (columns)."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    ns: tuple[tuple[float, ...], ...]


@dataclass(eq=False)
class Table:
    """Timed layers by kind, all of one device and batch."""

    device: str
    batch: int
    rows: dict[str, Timed] = field(default_factory=dict)

    def add(self, layer: Layer, *, least: float = 0.2) -> None:
        """Time a layer of this kind, unless that was done."""
        if key_of(layer) not in self.rows:
            self.rows[key_of(layer)] = _time_layer(layer, self.batch, least)

    def curve(self, layer: Layer) -> Curve:
        """Whole nanoseconds of a layer with so many channels; rounded up, so that sums are exact."""
        row = self.rows[key_of(layer)]
        time_IO = np.maximum.accumulate(np.maximum.accumulate(np.array(row.ns), 0), 1)
        depthwise = layer.depthwise

        def cost(inputs: Floats, outputs: Floats) -> Floats:
            asked = outputs if depthwise else inputs
            return np.asarray(np.ceil(_bilinear(row.inputs, row.outputs, time_IO, asked, outputs)))

        return cost

    def save(self, path: Path) -> None:
        """Write the table."""
        rows = {key: {"inputs": r.inputs, "outputs": r.outputs, "ns": r.ns} for key, r in self.rows.items()}
        write_json(path, {"device": self.device, "batch": self.batch, "rows": rows}, indent=1)


def load_table(path: Path, *, device: str, batch: int) -> Table:
    """The table of a file, or an empty one where there is none; refuses one of another device or batch."""
    if not path.exists():
        return Table(device, batch)
    try:
        words: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        rows = {
            key: Timed(tuple(r["inputs"]), tuple(r["outputs"]), tuple(tuple(map(float, line)) for line in r["ns"]))
            for key, r in words["rows"].items()
        }
        found = Table(words["device"], int(words["batch"]), rows)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CompressError(f"{path} is no table of timed layers ({error!r}); remove it, or name another") from None
    if (found.device, found.batch) != (device, batch):
        raise CompressError(
            f"{path} was timed on {found.device} with batches of {found.batch}, not on {device} with "
            f"batches of {batch}; name another (--latency-table), or --overwrite it"
        )
    return found


def device_name(device: str) -> str:
    """The device and how much of it is used."""
    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    return f"{_processor()}, {torch.get_num_threads()} threads"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def key_of(layer: Layer) -> str:
    """What layers must have in common to take the same time."""
    s, kind = layer.shape, "linear" if isinstance(layer.module, nn.Linear) else "conv"
    grouped = "depthwise" if layer.depthwise else f"groups {layer.groups}"
    bias = "bias" if layer.module.bias is not None else "no bias"
    rest = f"{s.k}x{s.k}/{s.stride} {grouped} on {s.h}x{s.w}" if kind == "conv" else f"at {layer.positions}"
    return f"{kind} {s.c}-{s.n} {rest}, {bias}"


def _time_layer(layer: Layer, batch: int, least: float) -> Timed:
    inputs, outputs = (_counts(n, layer.groups, least) for n in (layer.shape.c, layer.shape.n))
    if layer.depthwise:
        column = [_time(layer, count, count, batch) for count in outputs]
        return Timed(outputs, outputs, tuple(tuple(column) for _ in outputs))
    return Timed(inputs, outputs, tuple(tuple(_time(layer, i, o, batch) for o in outputs) for i in inputs))


def _counts(width: int, groups: int, least: float) -> tuple[int, ...]:
    """A few counts of channels from the least share to all; grouped layers take multiples of their groups."""
    step = groups if 1 < groups < width else 1
    points = np.linspace(max(step, least * width), width, _POINTS) / step
    return tuple(sorted({int(count) for count in np.ceil(points) * step if count <= width} | {width}))


def _time(layer: Layer, inputs: int, outputs: int, batch: int) -> float:
    """A layer of the same kind with other channels, timed."""
    module, s = layer.module, layer.shape
    device, bias = module.weight.device, module.bias is not None
    if isinstance(module, nn.Linear):
        made: nn.Module = nn.Linear(inputs, outputs, bias=bias, device=device)
        x = torch.randn(batch, *([layer.positions] if layer.positions > 1 else []), inputs, device=device)
        return time_ns(made, x)
    groups = outputs if layer.depthwise else module.groups
    conv: Any = nn.Conv2d
    sides = (module.kernel_size, module.stride, module.padding, module.dilation)
    made = conv(inputs, outputs, *sides, groups=groups, bias=bias, device=device)
    return time_ns(made, torch.randn(batch, inputs, s.h, s.w, device=device))


def _bilinear(rows: Sequence[int], columns: Sequence[int], table: Floats, row: Floats, column: Floats) -> Floats:
    """Between four grid points; beyond the grid, its edge."""
    (i, u), (j, v) = _place(np.array(rows, np.float64), row), _place(np.array(columns, np.float64), column)
    i1, j1 = np.minimum(i + 1, len(rows) - 1), np.minimum(j + 1, len(columns) - 1)
    top = table[i, j] * (1 - v) + table[i, j1] * v
    bottom = table[i1, j] * (1 - v) + table[i1, j1] * v
    return np.asarray(top * (1 - u) + bottom * u)


def _place(points: Floats, value: Floats) -> tuple[Any, Floats]:
    index = np.clip(np.searchsorted(points, value, side="right") - 1, 0, len(points) - 1)
    after = np.minimum(index + 1, len(points) - 1)
    width = np.where(after > index, points[after] - points[index], 1.0)
    return index, np.clip((value - points[index]) / width, 0.0, 1.0)


def aim(budget_ns: float, sums: Sequence[float], measured: Sequence[float]) -> float:
    """The sum of layers at which whole networks take the budget, from networks for which both are known.

    >>> aim(30.0, [10.0, 20.0], [20.0, 40.0])
    15.0
    """
    order = np.argsort(sums)
    known = np.maximum.accumulate(np.array(measured, np.float64)[order])
    at = np.array(sums, np.float64)[order]
    if budget_ns <= known[0]:
        return float(at[0] * budget_ns / known[0])
    return float(np.interp(budget_ns, known, at))


def time_all(layers: Mapping[str, Layer], table: Table, *, least: float) -> None:
    """Time every layer that the table does not have."""
    for layer in layers.values():
        table.add(layer, least=least)
