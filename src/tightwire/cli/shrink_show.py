"""What `tightwire shrink` shows: a bar a stage while it works, then stages and layers as tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import TaskID
from rich.table import Table

from tightwire.cli.show import human_bytes, human_seconds, lines, plain_table
from tightwire.compress.pipeline import Told


@contextmanager
def bars(out: Console) -> Iterator[Told]:
    """A bar for each stage that trains."""
    begun: dict[str, TaskID] = {}
    with lines(out) as progress:

        def told(stage: str, done: int, total: int) -> None:
            if stage not in begun:
                begun[stage] = progress.add_task(stage.partition("-")[2], total=total)
            progress.update(begun[stage], completed=done)

        yield told


def tables(result: dict[str, Any]) -> list[Table]:
    """The stages, and the layers of the last one."""
    stages = plain_table("stage", "accuracy", "kept", "bytes", "ratio", "time")
    for row in result["stages"]:
        stages.add_row(
            row["stage"].partition("-")[2] + (" (taken back)" if row.get("taken_back") else ""),
            f"{100 * row['test']['accuracy']:.2f}%" if "test" in row else "–",
            f"{100 * row['density']:.2f}%",
            human_bytes(row.get("nbytes")),
            f"{row['ratio']:.1f}×" if "ratio" in row else "",
            human_seconds(row["seconds"]),
        )
    layers = plain_table("layer", "shape", "kept", "values", "bits", "bytes", "ratio")
    for row in result["layers"]:
        layers.add_row(
            row["layer"], "×".join(map(str, row["shape"])), f"{100 * row['density']:.2f}%", str(row["centroids"]),
            f"{row['bits']:.2f}", human_bytes(row["nbytes"]), f"{row['dense_nbytes'] / max(1, row['nbytes']):.0f}×",
        )  # fmt: skip
    return [stages, layers]
