"""What a person sees: numbers in human units, tables, a live line while a run is under way."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from tightwire import files
from tightwire.engines.config import show_recipe
from tightwire.telemetry.follow import Follower

_POLL_S = 0.2


def console(json_to: str | None) -> Console:
    """Where words for people go: to standard error if standard output is to be one JSON object."""
    out = Console(stderr=json_to == "-", highlight=False)
    return out if out.is_terminal else Console(stderr=json_to == "-", highlight=False, width=120)


def human_bytes(count: float | None) -> str:
    """Bytes in units that people read.

    >>> human_bytes(1_599_660), human_bytes(None)
    ('1.60 MB', '–')
    """
    if count is None:
        return "–"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1000
    return f"{count:.2f} TB"


def human_seconds(seconds: float) -> str:
    """A duration.

    >>> human_seconds(0.5), human_seconds(59.99), human_seconds(75), human_seconds(119.5)
    ('0.5 s', '1 min 0 s', '1 min 15 s', '2 min 0 s')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(ceil(seconds), 60)
    return f"{minutes} min {rest} s"


def human_score(result: dict[str, Any]) -> str:
    """Accuracy, or perplexity; of a network that is none any more, only that."""
    if result.get("diverged"):
        return "[red]diverged[/]"
    if "test_accuracy" in result:
        return f"{100 * result['test_accuracy']:.1f}%"
    return f"ppl {result['perplexity']:.1f}"


def result_table(rows: list[dict[str, Any]], *, single: float | None = None) -> Table:
    """One line a run; ``single`` is one worker's samples a second, for the speed-up. Empty columns are left out."""
    columns: dict[str, list[str]] = {
        "score": [human_score(row) for row in rows],
        "time": [human_seconds(row["seconds"]) for row in rows],
        "samples/s": [f"{row['samples_per_second']:,.0f}" for row in rows],
        "speed-up": [f"{row['samples_per_second'] / single:.2f}×" if single else "" for row in rows],
        "sent/worker": [human_bytes(row["wire"]["tx_bytes"]) for row in rows],
        "ratio": [_ratio(row["wire"]["payload_ratio"]) for row in rows],
        "kernel/ledger": [_measured(row["wire"]) for row in rows],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    table = plain_table("run", *shown)
    for number, row in enumerate(rows):
        label = f"{show_recipe(row['recipe'], row['params'], row.get('codec'))} × {row['workers']}"
        table.add_row(label, *(cells[number] for cells in shown.values()))
    return table


def _ratio(ratio: float | None) -> str:
    return f"{ratio:.0f}×" if ratio else ""


def _measured(wire: dict[str, Any]) -> str:
    measured = wire["measured_tx_bytes"]
    return f"{measured / wire['tx_bytes']:.3f}" if measured and wire["tx_bytes"] else ""


def write_json(value: Any, to: str | None) -> None:
    """Write one JSON object where it was asked for."""
    if to == "-":
        json.dump(value, sys.stdout)
        sys.stdout.write("\n")
    elif to is not None:
        files.write_json(Path(to), value, indent=1)


def plain_table(first: str, *others: str) -> Table:
    """A table of words on the left and numbers on the right."""
    table = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def lines(out: Console, *columns: ProgressColumn) -> Progress:
    """A bar for everything that is under way, and columns behind it; nothing where nobody watches."""
    return Progress(
        TextColumn("[bold]{task.description}"), BarColumn(20), TextColumn("{task.completed}/{task.total}"), *columns,
        TimeRemainingColumn(compact=True), console=out, transient=True, disable=not out.is_terminal,
    )  # fmt: skip


class _Facts(ProgressColumn):
    """Loss, bytes and the slowest worker, after the bar."""

    def render(self, task: Task) -> Text:
        return Text(str(task.fields.get("facts", "")), style="dim")


@contextmanager
def live(folder: Path, label: str, out: Console) -> Iterator[None]:
    """A progress line for the run in ``folder`` while the block runs."""
    columns = (TextColumn("[bold]{task.description}"), BarColumn(24), TextColumn("{task.completed}/{task.total}"),
               TimeRemainingColumn(compact=True), _Facts())  # fmt: skip
    done = threading.Event()
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as progress:
        task = progress.add_task(label, total=None)
        watcher = threading.Thread(target=_watch, args=(folder, progress, task, done), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


def _watch(folder: Path, progress: Progress, task: Any, done: threading.Event) -> None:
    follower = Follower(folder)
    total = None
    while not done.wait(_POLL_S):
        follower.poll()
        total = total or _total_steps(folder)
        progress.update(task, total=total, completed=follower.step, facts=_facts(follower))
    follower.close()


def _total_steps(folder: Path) -> int | None:
    plan = folder / "plan.json"
    return int(json.loads(plan.read_text(encoding="utf-8"))["steps"]) if plan.exists() else None


def _facts(follower: Follower) -> str:
    parts = []
    if follower.loss is not None:
        parts.append(f"loss {follower.loss:.3f}")
    sent = [seen.tx_bytes for seen in follower.workers.values()]
    if sent:
        parts.append(f"{human_bytes(sum(sent) / len(sent))} sent")
    slowest = follower.slowest()
    if slowest is not None and slowest[1]:
        parts.append(f"{1 / slowest[1]:.1f} steps/s, slowest worker {slowest[0]}")
    return " · ".join(parts)
