"""The results page: steps, bytes and accuracy of training on several machines."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.tables import table

PAPER = "paper's bytes"
_SHOWN = {"benchmarks.photographs:whole": "cifar10"}


def vs_ddp(record: dict[str, Any]) -> str:
    """Step time next to DDP's."""
    ratio = record["tightwire_over_ddp"]
    low, _, high = ratio["quartiles"]
    early_ms = record["overlap"]["first_exchange_started_before_backward_returned_ms"]
    rows: list[list[object]] = [[name, f"{ms:.1f} ms"] for name, ms in record["step_ms"].items()]
    link = record["link"]
    network = "LeNet-300-100" if record["net"] == "lenet" else f"a {record['parameters'] / 1e6:.1f} M-parameter MLP"
    return "".join(
        [
            f"## `sync-sgd` next to DDP: {link}\n\nA step of {network}, ",
            f"batch {record['batch']}, {record['workers']} processes, interleaved:\n\n",
            table(["", "median step"], rows),
            f"\n**{ratio['median']:.2f}** of DDP's time (median of {ratio['rounds']} paired rounds, ",
            f"quartiles {low:.2f} to {high:.2f}). The first exchange of a step started {early_ms:.2g} ms before its ",
            f"backward pass returned. Importing tightwire after torch takes {record['import_seconds']:.2f} s.\n",
        ]
    )


def wire_bytes(record: dict[str, Any]) -> str:
    """Bytes next to formulas."""
    rows: list[list[object]] = []
    for row in record["rows"]:
        ratio = f"{row['payload_ratio']:.1f}×" if row["payload_ratio"] else ""
        counted = f"{row['tx_bytes_a_step']:,.0f}"
        rows.append([row["recipe"], f"`{row['formula']}`", f"{row['formula_bytes']:,.0f}", counted,
                     f"{row['rx_bytes_a_step']:,.0f}", ratio])  # fmt: skip
    return (
        f"## Bytes on the wire\n\nWhat one worker of {record['workers']} sends and receives a step, LeNet-300-100 "
        f"(M = {record['parameters']:,}), counted by the executor over {record['steps']} steps, headers included:\n\n"
        + table(["recipe", "formula", "formula gives", "counted tx", "counted rx", "payload ratio"], rows)
    )


def lab_bytes(record: dict[str, Any]) -> str:
    """The kernel's count next to ours."""
    rows: list[list[object]] = [
        [f"`{row['recipe']}`", f"{row['tx_bytes'] / record['steps']:,.0f}", f"{row['measured_over_ledger_tx']:.3f}",
         f"{row['measured_over_ledger_rx']:.3f}"]
        for row in record["rows"]
    ]  # fmt: skip
    return (
        f"## The kernel's counters ÷ the ledger\n\nLeNet-300-100, {record['workers']} hosts of the lab at "
        f"{record['rate']}, {record['steps']} steps. Framing of small messages weighs most; what was sent ahead for a "
        "step that never came is in the ledger only:\n\n"
        + table(["recipe", "ledger, bytes sent a step", "measured ÷ ledger, sent", "received"], rows)
    )


def digits(record: dict[str, Any]) -> str:
    """Accuracy of every recipe."""
    rows: list[list[object]] = [
        [f"`{row['recipe']}`", row["workers"], f"{row['accuracy']:.3f}", f"{row['accuracy_sorted']:.3f}",
         f"{row['tx_bytes'] / 1e6:.2f} MB"]
        for row in record["rows"]
    ]  # fmt: skip
    return (
        f"## Every recipe on digits\n\n`{record['model']}`, {record['epochs']} epochs, defaults only, real processes. "
        "On sorted shards each worker sees other classes. `one-shot-average` fails there, which is its nature:\n\n"
        + table(["recipe", "workers", "test accuracy, shuffled", "sorted", "sent per worker"], rows)
    )


def accuracy(record: dict[str, Any]) -> str:
    """Compressed training beside uncompressed, seed by seed."""
    rows: list[list[object]] = []
    for row in record["rows"]:
        found = list(row["accuracy"].values())
        rows.append([f"`{row['recipe']}`", f"{100 * statistics.mean(found):.2f}%",
                     ", ".join(f"{100 * one:.2f}" for one in found), f"{row['points_above_sync_sgd']:+.2f}",
                     f"{row['payload_ratio']:.1f}"])  # fmt: skip
    seeds = max(len(row["accuracy"]) for row in record["rows"])
    data = _SHOWN.get(record["data"], record["data"])
    return (
        f"## Accuracy beside `sync-sgd`: `{record['model']}` on {data}, {record['epochs']:g} epochs\n\n"
        f"{record['workers']} workers on the in-process link, batches of {record['batch']} each, every recipe with its "
        f"defaults, {seeds} seed{'s' * (seeds > 1)}; all recipes see the same samples:\n\n"
        + table(["recipe", "test accuracy", "each seed", "points above `sync-sgd`", "payload ratio"], rows)
    )


def step_time(record: dict[str, Any]) -> str:
    """Steps over a link, in units of a step without exchange."""
    figures = record["step_over_compute"]
    rows: list[list[object]] = [
        [name, f"{ratio['median']:.2f}", f"{ratio['quartiles'][0]:.2f} – {ratio['quartiles'][2]:.2f}", ratio["rounds"]]
        for name, ratio in sorted(figures.items(), key=lambda entry: entry[1]["median"])
    ]
    return (
        f"## A step at {record['rate']}, as a multiple of a step without exchange\n\nMLP 784-2048³-10 "
        f"({record['parameters'] / 1e6:.1f} M parameters), batch 64 each, {record['workers']} hosts of the lab on one "
        f"machine; a step without exchange takes {record['compute_ms']:.0f} ms. `dgc` keeps the paper's momentum "
        "here, the most work:\n\n" + table(["", "median", "quartiles", "rounds"], rows)
    )


def payload_ratio(record: dict[str, Any]) -> str:
    """DGC's payload ratios."""
    rows: list[list[object]] = [
        [row["network"], row["published"], f"{row[PAPER]:.1f}", f"{row['log8 and rice']:.1f}"] for row in record["rows"]
    ]
    return (
        f"## DGC's payload ratio at density {record['density']}\n\nDense gradient ÷ payload, everything included "
        "(lengths, fillers, vectors). The last column has logarithmic 8-bit values, entropy-coded gaps and vectors in "
        "half precision; what rounding loses is fed back:\n\n"
        + table(["network", "published", "6 bytes an element", "log8 and rice"], rows)
    )


def gpu_kernels(record: dict[str, Any]) -> str:
    """Encoding on a GPU."""
    rows: list[list[object]] = [[name, f"{ms['median_ms']:.3f} ms"] for name, ms in record["ms"].items()]
    millions = record["elements"] / 1e6
    passes = ". One-bit and ternary codes: a kernel's pass alone, then the whole codec with and without it"
    packed = passes if any(name.startswith("one-bit") for name in record["ms"]) else ""
    return (
        f"## Encoding on a GPU\n\n{millions:.1f} M float32 gradients in the {record['tensors']} tensors of ResNet-50, "
        f"density {record['density']}, by CUDA events. Encoding is momentum, accumulation, exact selection, compaction "
        f"and clearing; the floor reads and writes the same bytes and does nothing else{packed}:\n\n"
        + table(["", "median"], rows)
    )


def ptb(record: dict[str, Any]) -> str:
    """Perplexities, epoch by epoch."""
    arms = record["arms"]
    epochs = min(len(log) for log in arms.values())
    gpus = sorted({row["gpu"] for log in arms.values() for row in log})
    rows: list[list[object]] = [
        [number + 1, *(f"{log[number]['test']:.2f}" for log in arms.values()),
         *(f"{log[number]['payload_ratio']:.1f}" for log in arms.values())]
        for number in range(epochs)
    ]  # fmt: skip
    return (
        f"## Penn Treebank\n\nTest perplexity and payload ratio after each epoch: 2 × 1500 LSTM, {record['workers']} "
        f"workers on one {', '.join(gpus)}, rate 20, `dgc` at 0.001 after a warm-up in the first epoch:\n\n"
        + table(["epoch", *(f"`{arm}`" for arm in arms), *(f"ratio, `{arm}`" for arm in arms)], rows)
    )
