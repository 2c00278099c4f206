"""The results page: AMC and its rivals."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.amc_summary import SIDES, WHOLE, starting
from benchmarks.tables import table


def amc(record: dict[str, Any]) -> str:
    """CIFAR-10: before and after fine-tuning, single weights, and which kernels are pruned."""
    rows, found = record["rows"], record["summary"]
    parts = [f"## AMC: {_question(found)} {_network(record)}, CIFAR-10{_small(record)}\n"]
    if "before" in found:
        parts.append(_before(record, starting(rows, "paper-"), found))
    if "after" in found:
        parts.append(_after(rows, found["after"]))
    if "fine" in found:
        parts.append(_densities(starting(rows, "densities.")) + _fine(rows, found["fine"]))
    parts.append(_longer(starting(rows, "whole-")))
    if "pattern" in found:
        parts.append(_pattern(record, found["pattern"]))
    return "".join(parts)


def _question(found: dict[str, Any]) -> str:
    """A file of patterns alone is about nothing else."""
    return "which layers are pruned most in" if set(found) == {"pattern"} else "how hard to prune each layer of"


def _network(record: dict[str, Any]) -> str:
    return f"`{record.get('network', 'resnet56')}`"


def _small(record: dict[str, Any]) -> str:
    side = record.get("side", WHOLE)
    return "" if side == WHOLE else f" in {side} × {side} pixels"


def _before(record: dict[str, Any], papers: list[Any], found: dict[str, Any]) -> str:
    searches = starting(record["rows"], "search-")
    methods: list[list[object]] = [
        [name, row.get("searches", len(searches)), f"{100 * row['test_accuracy']:.2f}%",
         f"{100 * row['held_accuracy']:.2f}%", f"{row['evaluations']:.0f}", f"{row['seconds']:.0f} s"]
        for name, row in found["before"].items()
    ]  # fmt: skip
    if papers:
        one = [row["methods"]["amc-paper"] for row in papers]
        mean = {key: statistics.mean(row[key] for row in one) for key in ("test_accuracy", "held_accuracy", "seconds")}
        seeds = ", ".join(str(row["seed"]) for row in papers)
        methods.append([f"amc, the paper's agent alone (seeds {seeds})", len(one),
                        f"{100 * mean['test_accuracy']:.2f}%", f"{100 * mean['held_accuracy']:.2f}%",
                        one[0]["evaluations"], f"{mean['seconds']:.0f} s"])  # fmt: skip
    reference = statistics.mean(row["reference_accuracy"] for row in searches)
    longest = max(row["seconds"] for row in searches)
    return (
        f"\nHalf the multiply-adds of {_network(record)} ({_percent(reference)}) by channels, nothing retrained, means "
        f"of {len(searches)} searches, each by other training samples. AMC over uniform on the test set: "
        f"{_points(found['before_amc_over_uniform'])} points. A task with its searches took at most {longest:.0f} s, "
        f"{'several at once on one GPU' if record['machine']['gpu'] else 'on a CPU'}:\n\n"
        + table(["method", "searches", "test accuracy", "on samples it decided by", "evaluations", "time"], methods)
    )


def _after(rows: dict[str, Any], found: dict[str, Any]) -> str:
    lines: list[list[object]] = [
        [row["method"], row["seed"], _percent(row["before"]), f"**{_percent(row['test_accuracy'])}**",
         _percent(row["reference_accuracy"]), f"{row['parameters']:,}", f"{row['epochs']:g}"]
        for row in starting(rows, "tune.")
    ]  # fmt: skip
    heads = ["method", "seed", "not retrained", "fine-tuned", "whole network", "parameters left", "epochs"]
    return f"\nThe same, cut and fine-tuned; {_paired(found)}:\n\n" + table(heads, lines)


def _densities(searches: list[Any]) -> str:
    lines: list[list[object]] = [
        [name, row["seed"], f"{100 * row['density']:.0f}%", _percent(one["held_accuracy"]),
         _percent(one["test_accuracy"]), one["evaluations"], f"{one['seconds']:.0f} s"]
        for row in sorted(searches, key=lambda row: (-row["density"], row["seed"]))
        for name, one in row["policies"].items()
    ]  # fmt: skip
    heads = ["method", "seed", "weights", "on samples it decided by", "test accuracy", "evaluations", "time"]
    return f"\nSingle weights, nothing retrained:\n\n{table(heads, lines)}" if lines else ""


def _fine(rows: dict[str, Any], found: dict[str, Any]) -> str:
    lines: list[list[object]] = [
        [row["method"], row["seed"], f"{row['fewer_weights']:.2f}×", f"**{_percent(row['test_accuracy'])}**",
         _percent(row["reference_accuracy"]), f"{100 * (row['test_accuracy'] - row['reference_accuracy']):+.2f}",
         f"{row['epochs']:g}"]
        for row in sorted(starting(rows, "fine."), key=lambda row: (-row["density"], row["seed"], row["method"]))
    ]  # fmt: skip
    words = "; ".join(f"density {density}: {_paired(one)}" for density, one in found.items())
    return (
        f"\nSingle weights, the densities of layers by AMC or the same everywhere, "
        f"both trained alike; {words}:\n\n"
        + table(["method", "seed", "fewer weights", "test accuracy", "whole network", "points", "epochs"], lines)
    )


def _longer(wholes: list[Any]) -> str:
    if not wholes:
        return ""
    each = ", ".join(_percent(row["test_accuracy"]) for row in wholes)
    return f"\nThe whole network trained on as long and alike, nothing pruned: {each}.\n"


def _paired(found: dict[str, Any]) -> str:
    means = ", ".join(f"{name} {_percent(value)}" for name, value in found["mean"].items())
    over = f", AMC over uniform {_points(found['amc_over_uniform'])}" if found["amc_over_uniform"] else ""
    pairs = len(found["seeds"])
    return f"{means}{over} ({pairs} pair{'s' * (pairs != 1)})"


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _points(shares: list[float]) -> str:
    return ", ".join(f"{100 * share:+.2f}" for share in shares)


def _pattern(record: dict[str, Any], found: dict[str, Any]) -> str:
    rows = record["rows"]
    lines: list[list[object]] = [
        [name, row["seed"], *(f"{100 * one[kind][side]:.1f}%" for kind in ("mean_density", "weighted_density")
                              for side in SIDES), _percent(one["test_accuracy"])]
        for row in starting(rows, "pattern-")
        for name, one in row["methods"].items()
    ]  # fmt: skip
    means = found["amc"]
    accuracy = "".join(f" ({_percent(row['test_accuracy'])})" for row in starting(rows, "bottleneck-"))
    heads = ["method", "seed", "1×1 kept, mean of layers", "3×3", "1×1, of all weights", "3×3", "test accuracy"]
    return (
        f"\n{_network(record)} made of bottleneck blocks{accuracy}, a fifth of its weights, not retrained. Of 3×3 "
        f"layers AMC keeps {_against(means['mean_density'])} of 1×1 layers as the mean of layers, and "
        f"{_against(means['weighted_density'])} of all their weights (stem and classifier not counted). "
        f"3×3 layers are pruned more than 1×1 {_how_often(starting(rows, 'pattern-'))}:\n\n"
        "![What AMC keeps of every layer](images/amc_pattern.svg)\n\n" + table(heads, lines)
    )


def _against(sides: dict[str, float]) -> str:
    return f"{100 * sides['3x3']:.1f}% against {100 * sides['1x1']:.1f}%"


def _how_often(patterns: list[Any]) -> str:
    """By each method that searches, in how many searches; as layers and as weights."""
    said = []
    for method in (name for name in patterns[0]["methods"] if name in ("amc", "amc-paper", "evolution")):
        sides = [[row["methods"][method][kind] for row in patterns] for kind in ("mean_density", "weighted_density")]
        layers, weights = (sum(one["3x3"] < one["1x1"] for one in some) for some in sides)
        said.append(f"by {method} in {layers} of {len(patterns)} searches as layers and in {weights} as weights")
    return ", ".join(said)


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
        parts.append(_latency(record["latency"]))
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


def _latency(row: dict[str, Any]) -> str:
    some = row["searches"]
    lines: list[list[object]] = [
        [one["seed"], f"**{one['of_budget']:.2f}**", f"{one['again_of_budget']:.2f}",
         *(f"{one['microseconds'][which]:.0f} µs" for which in ("whole", "cut")),
         f"{1 / one['cut_over_whole']['median']:.2f}×",
         *(_percent(one["test_accuracy"][when]) for when in ("before", "pruned"))]
        for one in some
    ]  # fmt: skip
    heads = ["seed", "of the budget, when found", "timed again", "whole", "cut", "faster", "accuracy", "not retrained"]
    return (
        f"\n`{some[0]['network']}`, {row['batch']} images at once, a budget of {some[0]['budget'].partition('=')[2]} "
        "of what the whole network takes; timed again in turns with it:\n\n" + table(heads, lines)
    )


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
