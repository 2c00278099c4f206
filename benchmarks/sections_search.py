"""The results page: AMC and its rivals."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.tables import table


def amc(record: dict[str, Any]) -> str:
    """CIFAR-10 on a GPU: before and after fine-tuning, single weights, and which kernels are pruned."""
    rows, found = record["rows"], record["summary"]
    searches = [row for name, row in rows.items() if name.startswith("search-")]
    parts = ["## AMC: how hard to prune each layer, CIFAR-10\n"]
    if searches:
        parts.append(_before(searches, found))
    if found.get("after"):
        parts.append(_after(rows, found, "tune.", "after", "Fine-tuned, half the multiply-adds"))
    if found.get("fine"):
        parts.append(_after(rows, found, "fine.", "fine", "A fifth of the weights, pruned while training"))
    patterns = [row for name, row in rows.items() if name.startswith("pattern-")]
    if patterns:
        parts.append(_pattern(patterns))
    return "".join(parts)


def _before(searches: list[dict[str, Any]], found: dict[str, Any]) -> str:
    methods: list[list[object]] = [
        [name, f"{100 * row['test_accuracy']:.2f}%", f"{100 * row['held_accuracy']:.2f}%", f"{row['seconds']:.0f} s"]
        for name, row in found["before"].items()
    ]
    over = found["before_amc_over_uniform"]
    reference = statistics.mean(row["reference_accuracy"] for row in searches)
    return (
        f"\nHalf the multiply-adds of a ResNet-56 ({100 * reference:.2f}%) by channels, nothing retrained, "
        f"means of {len(searches)} searches with the same evaluations each. AMC over uniform on the test set: "
        f"{', '.join(f'{100 * value:+.2f}' for value in over)} points:\n\n"
        + table(["method", "test accuracy", "on samples it decided by", "time"], methods)
    )


def _after(rows: dict[str, Any], found: dict[str, Any], start: str, label: str, title: str) -> str:
    lines: list[list[object]] = [
        [name.partition("-")[0].removeprefix(start), row["seed"], f"{100 * row['test_accuracy']:.2f}%",
         f"{100 * row['reference_accuracy']:.2f}%", f"{row['epochs']:g}"]
        for name, row in rows.items()
        if name.startswith(start)
    ]  # fmt: skip
    means = ", ".join(f"{name} {100 * value:.2f}%" for name, value in found[label].items())
    return f"\n{title}; means: {means}:\n\n" + table(
        ["method", "seed", "test accuracy", "whole network", "epochs"], lines
    )


def _pattern(patterns: list[dict[str, Any]]) -> str:
    lines: list[list[object]] = [
        [row["seed"], f"{100 * row['mean_density']['1x1']:.1f}%", f"{100 * row['mean_density']['3x3']:.1f}%",
         f"{100 * row['held_accuracy']:.2f}%", f"{100 * row['uniform_accuracy']:.2f}%"]
        for row in patterns
    ]  # fmt: skip
    mean = {side: statistics.mean(row["mean_density"][side] for row in patterns) for side in ("1x1", "3x3")}
    word = "pruned more" if mean["3x3"] < mean["1x1"] else "not pruned more"
    return (
        f"\nA bottleneck network (ResNet-50, small stem) at a fifth of its weights: 3×3 layers are {word} than 1×1 "
        "(mean density over layers, without stem and classifier):\n\n"
        + table(["seed", "1×1 kept", "3×3 kept", "accuracy, not retrained", "uniform"], lines)
    )


def amc_cpu(record: dict[str, Any]) -> str:
    """LeNet-5 and toys on a CPU."""
    parts = [
        f"## AMC on a CPU\n\nLeNet-5 ({100 * record['test_accuracy']:.2f}% on MNIST), {record['threads']} threads.\n"
    ]
    if "episodes" in record:
        row = record["episodes"]
        lines: list[list[object]] = [
            [name, f"{100 * one['error']:.2f}%", one["evaluations"], f"{one['seconds']:.0f} s"]
            for name, one in row["methods"].items()
        ]
        parts.append(f"\nBudget {row['budget']} by channels, {row['samples']:,} samples, nothing retrained:\n\n")
        parts.append(table(["method", "error", "evaluations", "time"], lines))
    if "latency" in record:
        row = record["latency"]
        us = row["microseconds"]
        parts.append(
            f"\nA budget of {row['budget_us']:.0f} µs for one image ({row['budget']} of the whole): what was found "
            "took "
            f"**{row['of_budget']:.2f}** of it; in turns with the whole network {us['cut']:.0f} against "
            f"{us['whole']:.0f} µs, {row['cut_over_whole']['median']:.2f} times as long.\n"
        )
    if "bytes" in record:
        row = record["bytes"]
        parts.append(
            f"\nA budget of {row['budget'].partition('=')[2]} for the file: **{row['file_nbytes']:,} bytes**, "
            f"{row['ratio']:.0f} times smaller, {100 * row['file_accuracy']:.2f}% "
            f"({100 * row['reference_accuracy']:.2f}% before) after a short fine-tuning.\n"
        )
    if record.get("toy", {}).get("rows"):
        parts.append(_toys(record["toy"]))
    return "".join(parts)


def _toys(toy: dict[str, Any]) -> str:
    names = [name for name in toy["rows"][0] if name not in ("seed", "optimum")]
    lines: list[list[object]] = [
        [name, f"{min(row[name] for row in toy['rows']):.4f}",
         f"{statistics.mean(row[name] for row in toy['rows']):.4f}",
         sum(row[name] >= 0.98 for row in toy["rows"])]
        for name in names
    ]  # fmt: skip
    return (
        f"\nToys with a known optimum, {len(toy['rows'])} seeds, {toy['episodes']} evaluations; accuracy over the "
        "optimum's (sensitivity is exact where harms add up, as they do here):\n\n"
        + table(["method", "least", "mean", "seeds within 2%"], lines)
    )
