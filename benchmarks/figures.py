"""Draw docs/images from the JSON under benchmarks/results: nothing is drawn that was not measured.

    python -m benchmarks.figures

A chart is lines with markers over a logarithmic axis, written as SVG by `benchmarks.chart`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.amc_summary import WHOLE, starting
from benchmarks.bars import Bar, Bars
from benchmarks.chart import Chart, Series
from benchmarks.harness import RESULTS
from benchmarks.sections_shrink import bits_curves

IMAGES = Path(__file__).parents[1] / "docs" / "images"
BLUE, RED, GREY = "#2563eb", "#dc2626", "#6b7280"
_KINDS = {"kmeans": "k-means", "uniform": "uniform levels"}
CHANCE = 10.0  # percent, of ten classes


def downpour_tau(record: dict[str, Any]) -> Chart:
    """Accuracy over the period of Downpour, next to `sync-sgd`."""
    lines = []
    for gamma, color in zip(
        sorted({row["gamma"] for row in record["downpour"] if row["tau"]}), (BLUE, RED), strict=True
    ):
        rows = [row for row in record["downpour"] if row["tau"] and row["gamma"] == gamma]
        lines.append(
            Series(f"downpour, gamma {gamma:g}", tuple((float(row["tau"]), _percent(row)) for row in rows), color)
        )
    for row in record["downpour"]:
        if not row["tau"]:
            first, *_, last = lines[0].points
            level = ((first[0], _percent(row)), (last[0], _percent(row)))
            lines.append(Series("sync-sgd", level, GREY, dash="5 4", marker="none"))
    return Chart(
        title="downpour: accuracy over its period",
        subtitle=_setting(record, record["downpour_epochs"]) + f", mean of {len(record['downpour'][0]['each'])} seeds",
        x_label="steps between two exchanges (tau = push = fetch)",
        y_label="test accuracy, %",
        series=tuple(lines),
    )


def softsync_rate(record: dict[str, Any]) -> Chart:
    """Accuracy over the rate, constant and by age."""
    lines = []
    for n in sorted({row["n"] for row in record["softsync"]}, reverse=True):
        for rule, color in (("constant", RED), ("by age", BLUE)):
            rows = [row for row in record["softsync"] if row["n"] == n and row["rule"] == rule]
            points = tuple((float(row["rate"]), _percent(row)) for row in rows)
            name = f"{rule}, n = {n}"
            many = n == max(row["n"] for row in record["softsync"])
            lines.append(Series(name, points, color, dash="" if many else "5 4", marker="disc" if many else "ring"))
    return Chart(
        title="softsync (constant rate) and staleness-aware (by age)",
        subtitle=_setting(record, record["softsync_epochs"]) + f", momentum {record['momentum']:g}",
        x_label="rate of a fresh gradient",
        y_label="test accuracy, %",
        series=tuple(lines),
    )


def bits_resnet20(record: dict[str, Any]) -> Chart:
    """Accuracy over bits: k-means and uniform, as they are and trained."""
    rows = bits_curves(record)["resnet20"]
    lines = []
    for how, words in (("", ""), ("_retrained", ", trained")):
        for kind, color in (("kmeans", BLUE), ("uniform", RED)):
            key = f"{kind}{how}_error"
            points = tuple((row["bits"], 100 - row[key]) for row in rows if key in row)
            lines.append(Series(f"{_KINDS[kind]}{words}", points, color, dash="5 4" if how else ""))
    return Chart(
        title="resnet20 on CIFAR-10: accuracy over bits a weight",
        subtitle="all weights kept, one codebook a layer",
        x_label="bits",
        y_label="test accuracy, %",
        series=tuple(lines),
    )


def amc_pattern(record: dict[str, Any]) -> Bars:
    """What AMC keeps of every layer of a bottleneck network, by the side of the kernel: the paper's figure 14."""
    rows = starting(record["rows"], "pattern-")
    bars = []
    layers = [row["methods"]["amc"]["layers"] for row in rows]
    for place, layer in enumerate(layers[0]):
        shares = [some[place]["ratio"] for some in layers]
        end = place in (0, len(layers[0]) - 1)
        kind = "stem, classifier" if end else f"{layer['k']}×{layer['k']}"
        bars.append(Bar(layer["layer"], sum(shares) / len(shares), kind, min(shares), max(shares)))
    means = record["summary"]["pattern"]["amc"]["mean_density"]
    return Bars(
        title="AMC on a bottleneck network: what every layer keeps",
        subtitle=f"{_pattern_of(record)}; a fifth of the weights; mean and range of {len(rows)} searches",
        x_label="layer, from input to output",
        y_label="weights kept",
        bars=bars,
        colors={"1×1": BLUE, "3×3": RED, "stem, classifier": GREY},
        levels={"1×1": means["1x1"], "3×3": means["3x3"]},
    )


def _pattern_of(record: dict[str, Any]) -> str:
    side = record["side"]
    return f"{record['network']}, CIFAR-10" + (f" in {side} × {side} pixels" if side != WHOLE else "")


def _setting(record: dict[str, Any], epochs: float) -> str:
    passes = f"{epochs:g} epoch{'s' * (epochs != 1)}"
    return f"{record['data']}, {record['model']}, {record['workers']} workers, batch {record['batch']} each, {passes}"


def _percent(row: dict[str, Any]) -> float:
    """A run that broke off because its numbers were no longer finite knows nothing: chance."""
    return CHANCE if row["accuracy"] is None else 100 * float(row["accuracy"])


def main() -> None:
    """Draw what there are figures for."""
    record = json.loads((RESULTS / "asynchrony.json").read_text(encoding="utf-8"))
    IMAGES.mkdir(exist_ok=True)
    for part, draw in (("downpour", downpour_tau), ("softsync", softsync_rate)):
        if record[part]:
            (IMAGES / f"{draw.__name__}.svg").write_text(draw(record).svg(), encoding="utf-8")
    record = json.loads((RESULTS / "shrink.json").read_text(encoding="utf-8"))
    (IMAGES / "bits_resnet20.svg").write_text(bits_resnet20(record).svg(), encoding="utf-8")
    for path in sorted(RESULTS.glob("amc*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if "pattern" in record.get("summary", {}):
            (IMAGES / "amc_pattern.svg").write_text(amc_pattern(record).svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
