"""How much each layer bears, measured and drawn: `tightwire shrink --scan`.

One layer at a time is pruned to several densities and nothing is retrained; accuracy is taken on training samples, so
that the test set decides nothing. Han, Pool, Tran, Dally: Learning both Weights and Connections. NIPS 2015, figure 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from torch import nn

from tightwire.compress.pipeline import Sets, Told
from tightwire.compress.prune.masks import prunable
from tightwire.compress.prune.sensitivity import DENSITIES, scan
from tightwire.compress.retrain import Examples, evaluate
from tightwire.engines.config import ConfigError
from tightwire.engines.search_chart import Axis, Plot

_SAMPLES = 2000


def scan_layers(model: nn.Module, sets: Sets | None, told: Told) -> list[dict[str, Any]]:
    """Accuracy with one layer at one density, all of them."""
    if sets is None:
        raise ConfigError("--scan measures accuracy; give --data, or leave it out")
    some = Examples(sets.train.x_N[:_SAMPLES], sets.train.y_N[:_SAMPLES])
    total, done = len(DENSITIES) * len(prunable(model)), 0

    def score(network: nn.Module) -> float:
        nonlocal done
        done += 1
        told("0-scan", done, total)
        return evaluate(network, some).accuracy

    return [{"layer": p.layer, "density": p.density, "accuracy": p.score} for p in scan(model, score)]


def draw(points: Sequence[dict[str, Any]]) -> str:
    """A line a layer: accuracy against the share that is pruned; early layers dark, late ones light."""
    layers = list(dict.fromkeys(point["layer"] for point in points))
    least = min(point["accuracy"] for point in points)
    plot = Plot(
        Axis(0.0, 1.0, "weights of the layer that are pruned", "{:.0%}".format),
        Axis(least, max(point["accuracy"] for point in points), "accuracy", "{:.1%}".format),
    )
    lines, keys = [], []
    for number, layer in enumerate(layers):
        own = [(1 - point["density"], point["accuracy"]) for point in points if point["layer"] == layer]
        color = f"hsl({_hue(number, len(layers)):.0f} 70% 45%)"
        lines.append(f'<g style="stroke:{color}">{plot.line(sorted(own), "thin")}</g>')
        keys.append(f'<span class="key"><i style="background:{color}"></i>{escape(layer)}</span>')
    return plot.svg(lines, "accuracy against the share of one layer that is pruned") + f"<p>{''.join(keys)}</p>"


def _hue(number: int, count: int) -> float:
    """From blue over green to red, through the depth of the network."""
    return 230 - 230 * number / max(1, count - 1)
