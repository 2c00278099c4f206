"""The results page: files of compressed networks, and running from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.tables import table


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


def gpu_codebook(record: dict[str, Any]) -> str:
    """A vector times codes on a GPU."""
    side, best = record["side"], record["best"]
    beside = "ordinary_launches" in best  # or there is but one way to launch
    name = "4 bits, reading codes ahead while the call before still runs" if beside else "4 bits"
    rows: list[list[object]] = [[name, f"{best['median_us']:.1f} µs"]]
    if beside:
        ordinary = best["ordinary_launches"]["median_us"]
        rows.append(["4 bits, begun only when the call before has ended", f"{ordinary:.1f} µs"])
        rows.append(["4 bits, Triton's kernel", f"{min(row['median_us'] for row in record['rows']):.1f} µs"])
    passes = best.get("passes_us", [])
    range_us = f" (medians of {len(passes)} passes: {min(passes):.1f} to {max(passes):.1f} µs)" if passes else ""
    rows.append(["cuBLAS, half precision", f"{record['cublas_fp16']['median_us']:.1f} µs"])
    rows += [[name, f"{us['median_us']:.1f} µs"] for name, us in record["others"].items()]
    return (
        f"## A vector times codes, GPU\n\n{side}×{side}, half precision, batch 1 unless said, by CUDA events over "
        f"rotating weights beyond the cache. Best: **{best['median_us']:.1f} µs**{range_us}; reading the codes at "
        f"4.8 TB/s takes {record['floor_us']:.1f} µs:\n\n" + table(["", "median"], rows)
    )


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
