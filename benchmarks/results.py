"""Make docs/results.md from the JSON under benchmarks/results.

python -m benchmarks.results          write the page
python -m benchmarks.results --check  fail if the page is not what the JSON gives
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "results.md"


def page() -> str:
    """The whole page."""
    parts = [
        "# Results\n\nMade from `benchmarks/results/*.json` by `python -m benchmarks.results`. Every figure was "
        "measured; its command stands below it.\n"
    ]
    for name, section in SECTIONS.items():
        path = RESULTS / f"{name}.json"
        if path.exists():
            record = json.loads(path.read_text(encoding="utf-8"))
            parts.append(section(record) + _where(record))
    return "\n".join(parts)


def _where(record: dict[str, Any]) -> str:
    machine = record["machine"]
    gpu = f", {machine['gpu']}" if machine["gpu"] else ""
    return (
        f"\n`{record['command']}`, {record['date']}: {machine['cpu']}, {machine['cores']} cores{gpu}, "
        f"torch {record['versions']['torch']}, Python {record['versions']['python']}.\n"
    )


def table(head: list[str], rows: list[list[object]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join('---' for _ in head)}|"]
    return "\n".join([*lines, *(f"| {' | '.join(str(cell) for cell in row)} |" for row in rows)]) + "\n"


def vs_ddp(record: dict[str, Any]) -> str:
    """Step time next to DDP's."""
    ratio, low, high = record["tightwire_over_ddp"], *record["tightwire_over_ddp"]["quartiles"][::2]
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


def hogwild(record: dict[str, Any]) -> str:
    """Steps lost to collisions, and what a second worker brings."""
    numbers = list(dict.fromkeys(row["numbers"] for row in record["lost"]))
    workers = list(dict.fromkeys(row["workers"] for row in record["lost"]))
    lost = {(row["numbers"], row["workers"]): row["lost"] for row in record["lost"]}
    rows: list[list[object]] = [[f"{n:,}", *(f"{100 * lost[n, w]:.2g}%" for w in workers)] for n in numbers]
    one, two = (max(record["sparse"][w]) for w in ("1", "2"))
    return "".join(
        [
            "## `hogwild`: lost steps, sparse throughput\n\n",
            "Every worker adds 1 to numbers in one memory; lost steps:\n\n",
            table(["numbers", *(f"{w} processes" for w in workers)], rows),
            "\nLogistic regression, 32 of a million weights a sample, samples a second (best of the rounds): ",
            f"{one:,.0f} with one process, {two:,.0f} with two, **{two / one:.2f}** times.\n",
        ]
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
        f"machine; a step without exchange takes {record['compute_ms']:.0f} ms:\n\n"
        + table(["", "median", "quartiles", "rounds"], rows)
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


PAPER = "paper's bytes"


def gpu_kernels(record: dict[str, Any]) -> str:
    """Encoding on a GPU."""
    rows: list[list[object]] = [[name, f"{ms['median_ms']:.3f} ms"] for name, ms in record["ms"].items()]
    millions = record["elements"] / 1e6
    return (
        f"## Encoding on a GPU\n\n{millions:.1f} M float32 gradients in the {record['tensors']} tensors of ResNet-50, "
        f"density {record['density']}, by CUDA events. Encoding is momentum, accumulation, exact selection, compaction "
        "and clearing; the floor reads and writes the same bytes and does nothing else:\n\n"
        + table(["", "median"], rows)
    )


SECTIONS = {
    "vs_ddp": vs_ddp,
    "vs_ddp_lab_1gbit": vs_ddp,
    "step_time_1gbit": step_time,
    "step_time_100mbit": step_time,
    "payload_ratio": payload_ratio,
    "gpu_kernels": gpu_kernels,
    "wire_bytes": wire_bytes,
    "lab_bytes": lab_bytes,
    "digits": digits,
    "hogwild": hogwild,
}


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    made = page()
    if parser.parse_args().check:
        sys.exit(
            0 if PAGE.read_text(encoding="utf-8") == made else "docs/results.md is stale: python -m benchmarks.results"
        )
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
