"""What `tightwire search` shows: episode, reward, best and budget while it searches; then methods and layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import TaskID, TextColumn
from rich.table import Table

from tightwire.cli.show import human_seconds, lines, plain_table
from tightwire.compress.search.problem import Tried
from tightwire.engines.search_methods import Watch
from tightwire.engines.search_words import why


@contextmanager
def live(out: Console) -> Iterator[Watch]:
    """What is gathered before it searches, then a line for each method while it does."""
    numbers = "reward {task.fields[last]:.4f}  best {task.fields[best]}  budget {task.fields[used]:.1%}"
    begun: dict[str, TaskID] = {}
    best: dict[str, float] = {}
    looking, progress = out.status("looking at the network: layers are ranked"), lines(out, TextColumn(numbers))
    with ExitStack() as ending:
        if out.is_terminal:
            looking.start()
        ending.callback(looking.stop)
        ending.callback(progress.stop)

        def watch(method: str, done: int, total: int, tried: Tried, used: float) -> None:
            looking.stop()
            progress.start()
            reward = tried.reward + 0.0  # never -0
            if used <= 1:  # a scan of single layers goes beyond the budget
                best[method] = max(best.get(method, reward), reward)
            shown = f"{best[method]:.4f}" if method in best else "–"
            fields: dict[str, Any] = {"last": reward, "best": shown, "used": used}
            if method not in begun:
                for line in progress.tasks:  # a method that needs fewer than it was given has ended
                    progress.update(line.id, total=line.completed)
                begun[method] = progress.add_task(method, total=total, **fields)
            progress.update(begun[method], completed=done, **fields)

        yield watch


def say_found(words: Console, result: dict[str, Any], *, source: Path, out: Path) -> None:
    """Methods and layers, what the policy costs and loses, and what to do next."""
    for table in tables(result):
        words.print(table, "")
    words.print(
        f"[bold]{out}[/]: {result['method']}, {100 * result['cost'] / result['whole']:.1f}% of the cost, error "
        f"{100 * result['error']:.2f}% before any retraining; report: {result['report']}"
    )
    if reason := why(result):
        words.print(f"[dim]{reason}[/]")
    timed = {key: ns / 1e6 for key, ns in result["settings"]["latency"].items()}
    if timed and timed["measured_ns"] > timed["budget_ns"]:
        words.print(
            f"[yellow]timed at {timed['measured_ns']:.3f} ms, above the budget of {timed['budget_ns']:.3f} ms: "
            "the machine was busy, or nothing found is faster; search again, or allow a smaller --least[/]"
        )
    words.print(f"[dim]next: tightwire shrink {source} --policy {out}[/]")


def tables(result: dict[str, Any]) -> list[Table]:
    """The methods side by side, and the layers of the policy that was taken."""
    methods = plain_table("method", "error", "cost", "evaluations", "time")
    for name, row in result["methods"].items():
        methods.add_row(
            f"[bold]{name}[/]" if name == result["method"] else name, f"{100 * row['error']:.2f}%",
            f"{100 * row['cost'] / result['whole']:.1f}%", str(row["evaluations"]), human_seconds(row["seconds"]),
        )  # fmt: skip
    layers = plain_table("layer", "kernel", "kept", "share", "in", "bits")
    for row in result["layers"]:
        layers.add_row(
            row["layer"], f"{row['k']}×{row['k']}", f"{row['kept']}/{row['of']}", f"{100 * row['ratio']:.1f}%",
            row["pattern"], str(row["bits"] or "–"),
        )  # fmt: skip
    return [methods, layers]
