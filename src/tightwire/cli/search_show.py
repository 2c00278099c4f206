"""What `tightwire search` shows: episode, reward, best and budget while it searches; then methods and layers."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from tightwire.cli.show import human_seconds
from tightwire.compress.search.problem import Tried


class Live:
    """A line for each method; nothing where nobody watches."""

    def __init__(self, out: Console) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description}"), BarColumn(20), TextColumn("{task.completed}/{task.total}"),
            TextColumn("reward {task.fields[last]:.4f}  best {task.fields[best]:.4f}  cost {task.fields[cost]:.4g}"),
            TimeRemainingColumn(compact=True), console=out, transient=True, disable=not out.is_terminal,
        )  # fmt: skip
        self._lines: dict[str, TaskID] = {}
        self._best: dict[str, float] = {}

    def __enter__(self) -> Live:
        """Begin to draw."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the lines away."""
        self._progress.stop()

    def __call__(self, method: str, done: int, total: int, tried: Tried) -> None:
        """One more evaluation."""
        self._best[method] = max(self._best.get(method, tried.reward), tried.reward)
        fields: dict[str, Any] = {"last": tried.reward, "best": self._best[method], "cost": tried.cost}
        if method not in self._lines:
            self._lines[method] = self._progress.add_task(method, total=total, **fields)
        self._progress.update(self._lines[method], completed=done, **fields)


def tables(result: dict[str, Any]) -> list[Table]:
    """The methods side by side, and the layers of the policy that was taken."""
    methods = _table("method", "error", "cost", "evaluations", "time")
    for name, row in result["methods"].items():
        methods.add_row(
            f"[bold]{name}[/]" if name == result["method"] else name, f"{100 * row['error']:.2f}%",
            f"{100 * row['cost'] / result['whole']:.1f}%", str(row["evaluations"]), human_seconds(row["seconds"]),
        )  # fmt: skip
    layers = _table("layer", "kernel", "kept", "share", "in", "bits")
    for row in result["layers"]:
        layers.add_row(
            row["layer"], f"{row['k']}×{row['k']}", f"{row['kept']}/{row['of']}", f"{100 * row['ratio']:.1f}%",
            row["pattern"], str(row["bits"] or "–"),
        )  # fmt: skip
    return [methods, layers]


def _table(first: str, *others: str) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table
