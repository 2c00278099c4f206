"""What `tightwire shrink` shows: a bar a stage while it works, then stages and layers as tables."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from tightwire.cli.show import human_bytes, human_seconds


class Bars:
    """A bar for each stage that trains; nothing where nobody watches."""

    def __init__(self, out: Console) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description}"), BarColumn(24), TextColumn("{task.completed}/{task.total}"),
            TimeRemainingColumn(compact=True), console=out, transient=True, disable=not out.is_terminal,
        )  # fmt: skip
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        """Begin to draw."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bars away."""
        self._progress.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """One more step of a stage."""
        if stage not in self._bars:
            self._bars[stage] = self._progress.add_task(stage.partition("-")[2], total=total)
        self._progress.update(self._bars[stage], completed=done)


def tables(result: dict[str, Any]) -> list[Table]:
    """The stages, and the layers of the last one."""
    stages = _table("stage", "accuracy", "kept", "bytes", "ratio", "time")
    for row in result["stages"]:
        stages.add_row(
            row["stage"].partition("-")[2] + (" (taken back)" if row.get("taken_back") else ""),
            f"{100 * row['test']['accuracy']:.2f}%" if "test" in row else "–",
            f"{100 * row['density']:.2f}%",
            human_bytes(row.get("nbytes")),
            f"{row['ratio']:.1f}×" if "ratio" in row else "",
            human_seconds(row["seconds"]),
        )
    layers = _table("layer", "shape", "kept", "values", "bits", "bytes", "ratio")
    for row in result["layers"]:
        layers.add_row(
            row["layer"], "×".join(map(str, row["shape"])), f"{100 * row['density']:.2f}%", str(row["centroids"]),
            f"{row['bits']:.2f}", human_bytes(row["nbytes"]), f"{row['dense_nbytes'] / max(1, row['nbytes']):.0f}×",
        )  # fmt: skip
    return [stages, layers]


def _table(first: str, *others: str) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table
