"""Make docs/results.md from the JSON under benchmarks/results.

python -m benchmarks.results          write the page
python -m benchmarks.results --check  fail if the page is not what the JSON gives
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
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


def stragglers(record: dict[str, Any]) -> str:
    """Slow workers, for ever and now and then."""
    parts = [
        f"## Slow workers\n\nSeconds to {record['samples']:,} samples of digits, `mlp`, {record['workers']} real "
        "workers that really sleep: 20 ms in a usual step. BSP is `ssp` with staleness 0. A bound of s lets the fast "
        "run s steps ahead once; against a worker that is slow for ever that is all it gives:\n"
    ]
    words = {
        "permanent": "One worker held up 5 times as long, always",
        "transient": "Every step held up by a lognormal factor, σ = 1",
    }
    for kind, rows in record["rows"].items():
        shown: list[list[object]] = []
        for row in rows:
            sync, bsp = row["times_faster_than"].values()
            age = "" if row["staleness_mean"] is None else f"{row['staleness_mean']:.1f}"
            shown.append([f"`{row['recipe']}`", f"{row['median_seconds']:.2f} s", f"{sync:.2f}×", f"{bsp:.2f}×", age])
        head = ["", "median", "faster than `sync-sgd`", "than BSP", "mean staleness"]
        parts.append(f"\n{words[kind]}:\n\n{table(head, shown)}")
    return "".join(parts)


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


def asynchrony(record: dict[str, Any]) -> str:
    """What periods, staleness and rates cost."""
    where = f"`{record['model']}` on {record['data']}, {record['workers']} workers, batch {record['batch']} each"
    parts = [f"## Asynchrony: {record['data']}\n\n{where}, in one process, times lognormal.\n\n"]
    if record["compare"]:
        parts += [f"{record['epochs']:g} epochs, paired by seed; bytes are what one worker sends and receives:\n\n",
                  _compared(record["compare"]), "\n"]  # fmt: skip
    if record["downpour"]:
        parts += [f"`downpour` over its period, {record['downpour_epochs']:g} epochs, gamma {record['gamma']:g} ",
                  "([drawn](images/downpour_tau.svg)):\n\n", _periods(record["downpour"]), "\n"]  # fmt: skip
    if record["softsync"]:
        parts += ["Rates of a fresh gradient, constant (`softsync`) and divided by age (`staleness-aware`), ",
                  f"momentum {record['momentum']:g}, {record['softsync_epochs']:g} epochs ",
                  "([drawn](images/softsync_rate.svg)):\n\n", _rates(record["softsync"])]  # fmt: skip
    return "".join(parts)


def _compared(rows: list[dict[str, Any]]) -> str:
    lines: list[list[object]] = [
        [f"`{row['recipe']}`", _spread(row["accuracy"].values()), f"{row['points_above_sync_sgd']:+.2f}",
         f"{row['bytes_a_step']:,.0f}", f"{row['fewer_bytes']:.1f}×"]
        for row in rows
    ]  # fmt: skip
    return table(["recipe", "test accuracy", "points above sync-sgd", "bytes a step", "fewer"], lines)


def _periods(rows: list[dict[str, Any]]) -> str:
    lines: list[list[object]] = [
        [row["tau"] or "sync-sgd", _percent(row), f"{row.get('staleness') or 0:.1f}"] for row in rows
    ]
    return table(["push = fetch", "test accuracy", "mean age"], lines)


def _rates(rows: list[dict[str, Any]]) -> str:
    rates = sorted({row["rate"] for row in rows})
    found = {(row["n"], row["rule"], row["rate"]): row for row in rows}
    lines: list[list[object]] = [
        [n, rule, *(_percent(found[n, rule, rate]) if (n, rule, rate) in found else "" for rate in rates)]
        for n, rule in dict.fromkeys((row["n"], row["rule"]) for row in rows)
    ]
    return table(["n", "rate", *(f"{rate:g}" for rate in rates)], lines)


def _percent(row: dict[str, Any]) -> str:
    return "broke off" if row["accuracy"] is None else f"{100 * row['accuracy']:.1f}%"


def _spread(values: Iterable[float]) -> str:
    found = [100 * value for value in values]
    return f"{sum(found) / len(found):.2f}% ({min(found):.2f} – {max(found):.2f})"


def file_size(record: dict[str, Any]) -> str:
    """The same weights through everybody's coders."""
    names = list(dict.fromkeys(name for row in record["rows"] for name in row["nbytes"]))
    rows: list[list[object]] = [
        [
            name,
            *(f"{row['nbytes'][name]:,} ({row['dense_nbytes'] / row['nbytes'][name]:.1f}×)" for row in record["rows"]),
        ]
        for name in names
        if all(name in row["nbytes"] for row in record["rows"])
    ]
    kinds = list(record["rows"][0]["layers"][0]["bits_a_kept_weight"])
    layers: list[list[object]] = [
        [row["file"], layer["layer"], f"{layer['density']:.1%}", layer["centroids"],
         *(f"{layer['bits_a_kept_weight'][kind]:.2f}" for kind in kinds)]
        for row in record["rows"]
        for layer in row["layers"]
    ]  # fmt: skip
    rates = [[name, f"{rate:,.0f}"] for name, rate in record["million_symbols_a_second"].items()]
    return "".join(
        [
            "## Bytes of a compressed network, everybody's coder on the same weights\n\nWithout loss, everything ",
            "included (the paper's coding and the peers' without a header):\n\n",
            table(["bytes", *(row["file"] for row in record["rows"])], rows),
            "\nBits for each weight that was kept, position and value together:\n\n",
            table(["network", "layer", "density", "centroids", *kinds], layers),
            f"\nMillion symbols a second on one thread, {record['symbols'] / 1e6:.0f} M symbols of 5 bits ",
            "(3.9 by entropy), table included:\n\n",
            table(["", "million symbols/s"], rates),
        ]
    )


def run_compressed(record: dict[str, Any]) -> str:
    """Running from codes and codebooks on a CPU."""
    parts = [
        "## Running from the compressed form, CPU\n\nOne thread, batch 1, in turns, cold: before every call "
        f"{record['evicted_mib']} MiB are rewritten. 32 centroids. Torch's sparse product has 32-bit indices; "
        "`to_sparse_csr` gives 64-bit ones, which are slower:\n\n"
    ]
    layers: list[list[object]] = []
    for row in record.get("layers", []):
        ms = row["ms"]
        for name, over in row["over_csr"].items():
            layers.append([
                f"{row['rows']}×{row['columns']} at {100 * row['density']:g}%", name, f"{ms[name]:.2f} ms",
                f"**{over['median']:.2f}** ({over['quartiles'][0]:.2f} – {over['quartiles'][2]:.2f})",
                f"{row['over_csr_64'][name]['median']:.2f}", f"{row['dense_over'][name]['median']:.1f}×",
            ])  # fmt: skip
    parts.append(table(["layer", "ours", "time", "÷ torch CSR", "÷ torch CSR, 64-bit", "faster than dense"], layers))
    parts.append("\nBatches, 4096×4096, milliseconds (dense, sparse, compressed):\n\n")
    parts.append(_forms(record.get("batches", []), lambda row: f"batch {row['batch']}"))
    parts.append("\nConvolutions, one image, milliseconds (dense, sparse, compressed):\n\n")
    parts.append(_forms(record.get("convolutions", []), lambda row: row["layer"]))
    parts.append("\nFilters removed until half the multiply-adds are left:\n\n")
    removed: list[list[object]] = [
        [f"`{row['network']}`, batch {row['batch']}", f"{100 * row['operations_left']:.0f}%",
         f"{row['ms']['dense']:.1f} ms", f"{row['ms']['filters removed']:.1f} ms",
         f"**{row['dense_over_removed']['median']:.2f}×**"]
        for row in record.get("filters", [])
    ]  # fmt: skip
    parts.append(table(["network", "multiply-adds left", "dense", "filters removed", "faster"], removed))
    return "".join(parts)


def _forms(rows: list[dict[str, Any]], name: Callable[[dict[str, Any]], str]) -> str:
    """A row a layer, a column a density; the fastest form is printed bold."""
    densities = list(dict.fromkeys(row["density"] for row in rows))
    found = {(name(row), row["density"]): row["ms"] for row in rows}

    def cell(ms: dict[str, float]) -> str:
        return ", ".join(f"**{t:.2f}**" if t == min(ms.values()) else f"{t:.2f}" for t in ms.values())

    lines: list[list[object]] = [
        [which, *(cell(found[which, density]) for density in densities)] for which in dict.fromkeys(map(name, rows))
    ]
    return table(["", *(f"{100 * density:g}%" for density in densities)], lines)


def gpu_codebook(record: dict[str, Any]) -> str:
    """A vector times codes on a GPU."""
    side, best = record["side"], record["best"]
    ways: dict[str, dict[str, Any]] = {}
    for row in record["rows"]:
        if row["way"] not in ways or row["median_us"] < ways[row["way"]]["median_us"]:
            ways[row["way"]] = row
    rows: list[list[object]] = [[f"4 bits, by {way}", f"{row['median_us']:.1f} µs"] for way, row in ways.items()]
    rows.append(["cuBLAS, half precision", f"{record['cublas_fp16']['median_us']:.1f} µs"])
    rows += [[name, f"{us['median_us']:.1f} µs"] for name, us in record["others"].items()]
    return (
        f"## A vector times codes, GPU\n\n{side}×{side}, half precision, batch 1 unless said, by CUDA events over "
        f"rotating weights beyond the cache. Best: **{best['median_us']:.1f} µs**; reading the codes at 4.8 TB/s takes "
        f"{record['floor_us']:.1f} µs:\n\n" + table(["", "median"], rows)
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
    "stragglers": stragglers,
    "ptb": ptb,
    "asynchrony": asynchrony,
    "file_size": file_size,
    "run_compressed": run_compressed,
    "gpu_codebook": gpu_codebook,
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
