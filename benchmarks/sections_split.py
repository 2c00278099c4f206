"""The results page: models cut over workers."""

from __future__ import annotations

from typing import Any

from benchmarks.tables import table


def table1(record: dict[str, Any]) -> str:
    """The layer-wise paper's table, its speed."""
    size = record["size"]
    order = (
        "serial",
        "ceiling",
        "synchronous",
        "asgd",
        "layer-wise",
        "layer-wise half",
        "layer-wise gloo",
        "layer-wise memory",
        "whole layers",
    )
    rows: list[list[object]] = [
        [row["system"], row["workers"], f"{row['minutes_per_10_hours']:.1f}", _number(row["S"]), _number(row["E"]),
         _number(row["of_ceiling"]), f"{sum(row['tx_bytes_a_minibatch']) / 1e6:.1f}",
         "" if row.get("fewer_bytes") is None else f"{row['fewer_bytes']:.1f}×"]
        for row in sorted(record["rows"], key=lambda row: (row["workers"], order.index(row["system"])))
    ]  # fmt: skip
    why = [f"{key} workers: {plan['why']}." for key, plan in record["plans"].items() if key.startswith("layer-wise")]
    about = f" ({record['about']})" if "about" in record else ""
    return (
        f"## Layer-wise partitioning: speed on {record['machine']['cores']} cores{about}\n\n"
        f"{size['inputs']} inputs, 7×{size['width']}, {size['outputs']:,} outputs,"
        f" b = {size['batch']}, one process a worker, one thread a process. `ceiling`: as many serial processes at "
        "once, which know nothing of each other. `synchronous` divides the minibatch, `asgd` takes one a worker.\n\n"
        + table(
            ["system", "P", "min/10 h", "S", "E", "of ceiling", "MB a minibatch, of all", "fewer than synchronous"],
            rows,
        )
        + "\n"
        + "\n".join(why)
        + "\n"
    )


def frames(record: dict[str, Any]) -> str:
    """Frame accuracy."""
    rows: list[list[object]] = []
    for row in sorted(record["rows"], key=lambda row: (row["workers"], row["system"])):
        lost, by_seed = row.get("points_lost_to_serial"), row.get("points_lost_by_seed", ())
        right = "failed" if "error" in row else f"{100 * row['accuracy']:.2f}"
        paired = ", ".join(f"{one:+.2f}" for one in by_seed)
        rows.append([row["system"], row["workers"], right, "" if lost is None else f"{lost:+.2f}", paired])
    return (
        f"## Layer-wise partitioning: frame accuracy\n\n{record['model']} on spoken digits, 500 classes, "
        f"{record['epochs']:g} epochs, minibatches of {record['batch']}, SGD with rate {record['lr']} and momentum "
        f"{record['momentum']}, workers in one process:\n\n"
        + table(["system", "P", "accuracy %", "points lost to serial", "by seed"], rows)
    )


def pipelines(record: dict[str, Any]) -> str:
    """Next to torch's pipelines."""
    rows: list[list[object]] = []
    for name, ratio in record["time_relative_to_torch"].items():
        low, high = ratio["quartiles"][::2]
        rows.append([f"`{name}`", f"{ratio['median']:.2f}", f"{low:.2f} to {high:.2f}", f"{1 / ratio['median']:.2f}×"])
    return (
        f"## Pipelines next to `torch.distributed.pipelining`: {record['workers']} workers\n\n"
        f"{2 * record['workers']} layers of {record['width']}, batch {record['batch']}, {record['microbatches']} "
        f"microbatches, gloo unless said otherwise, interleaved; time ÷ that of torch's 1F1B, median of "
        f"{record['rounds']} paired rounds:\n\n" + table(["schedule", "time ÷ torch's", "quartiles", "faster"], rows)
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
