"""The figures of all runs side by side, the best of each column marked. Columns without any figure are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape

from tightwire.telemetry.report.record import RunRecord
from tightwire.telemetry.report.style import Style
from tightwire.telemetry.report.units import (
    plural,
    show_accuracy,
    show_bytes,
    show_number,
    show_ratio,
    show_seconds,
)

Merit = Callable[[float], float]  # greater is better
Show = Callable[[float], str]


@dataclass(frozen=True)
class Column:
    """One figure of every run."""

    head: str
    hint: str
    values: tuple[float | None, ...]
    texts: tuple[str, ...]
    merit: Merit | None = None

    def best(self) -> frozenset[int]:
        """The rows with the best value; nobody is best where all are equal."""
        if self.merit is None:
            return frozenset()
        merits = {row: self.merit(value) for row, value in enumerate(self.values) if value is not None}
        if len(set(merits.values())) < 2:
            return frozenset()
        top = max(merits.values())
        return frozenset(row for row, merit in merits.items() if merit == top)


def much(value: float) -> float:
    """More is better."""
    return value


def little(value: float) -> float:
    """Less is better."""
    return -value


def little_but_some(value: float) -> float:
    """Less is better, but a worker who is alone and sends nothing has not won."""
    return -value if value > 0 else -float("inf")


def near_one(value: float) -> float:
    """The nearer to 1 the better."""
    return -abs(value - 1)


def speedups(runs: Sequence[RunRecord]) -> tuple[tuple[float | None, ...], tuple[int, ...]]:
    """Samples per second over those of a base, and each run's base.

    The base is a run of one worker if there is one, else the first; of the same model and data, for others do not
    compare.
    """
    bases = []
    for run in runs:
        same = [at for at, other in enumerate(runs) if _task(other) == _task(run)]
        bases.append(next((at for at in same if runs[at].workers == 1), same[0]))
    rates = [run.figures.samples_per_second for run in runs]
    found = []
    for rate, base in zip(rates, bases, strict=True):
        over = rates[base]
        found.append(rate / over if rate is not None and over else None)
    return tuple(found), tuple(bases)


def _task(run: RunRecord) -> tuple[object, object]:
    return run.config.get("model"), run.config.get("data")


def columns(runs: Sequence[RunRecord]) -> list[Column]:
    """All columns somebody has a figure for."""

    def column(head: str, hint: str, values: Iterable[float | None], show: Show, merit: Merit | None = None) -> Column:
        known = tuple(values)
        return Column(head, hint, known, tuple("–" if value is None else show(value) for value in known), merit)

    told = [run.figures for run in runs]
    stale = column("staleness", "mean age of contributions in updates, and the greatest",
                   (f.staleness_mean for f in told), show_number, little)  # fmt: skip
    oldest = [f"{text} (max {f.staleness_max:g})" if f.staleness_max is not None else text
              for text, f in zip(stale.texts, told, strict=True)]  # fmt: skip
    every = [
        column("workers", "how many trained together", (run.workers for run in runs), show_number),
        column("accuracy", "on test data, of the recipe's answer", (f.accuracy for f in told), show_accuracy, much),
        column("perplexity", "on test data, of the recipe's answer", (f.perplexity for f in told), show_number, little),
        column("time", "training only: no start, no checkpoints", (f.seconds for f in told), show_seconds, little),
        column("samples/s", "of all workers together", (f.samples_per_second for f in told), show_number, much),
        column("speed-up", "samples/s over those of the base", speedups(runs)[0], show_ratio, much),
        column("sent", "bytes sent per worker", (f.tx_bytes for f in told), show_bytes, little_but_some),
        column("payload", "dense gradient bytes ÷ encoded bytes", (f.payload_ratio for f in told), show_ratio, much),
        column(
            "measured ÷ ledger", "kernel's bytes over ours", (f.measured_over_ledger for f in told), _share, near_one
        ),
        column("restarts", "after a worker was lost", (f.restarts for f in told), show_number, little),
        replace(stale, texts=tuple(oldest)),
    ]
    return [column for column in every if any(value is not None for value in column.values)]


def _share(value: float) -> str:
    return f"{value:.3f}"


def table(runs: Sequence[RunRecord], looks: Sequence[Style]) -> str:
    """The table as HTML; on a phone every row becomes a card, labelled by ``data-head``."""
    shown = columns(runs)
    heads = "".join(f'<th scope="col" title="{escape(c.hint)}">{escape(c.head)}</th>' for c in shown)
    rows = []
    for row, (run, look) in enumerate(zip(runs, looks, strict=True)):
        cells = "".join(_cell(column, row) for column in shown)
        about = escape(aside(run, runs))
        small = f"<small>{about}</small>" if about else ""
        who = f'<div class="who">{look.swatch()}<span><b>{escape(look.label)}</b>{small}</span></div>'
        rows.append(f'<tr><th scope="row">{who}</th>{cells}</tr>')
    return (
        f'<div class="scroll"><table class="runs"><thead><tr><th scope="col">run</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(column: Column, row: int) -> str:
    text, head = escape(column.texts[row]), f'data-head="{escape(column.head)}"'
    if column.values[row] is None:
        return f'<td {head} class="none">{text}</td>'
    if row in column.best():
        return f'<td {head} class="best"><b>{text}</b><span class="unseen"> (best)</span></td>'
    return f"<td {head}>{text}</td>"


def aside(run: RunRecord, runs: Sequence[RunRecord]) -> str:
    """What a reader should know of a run beside its label: how it ended, and what is not the same in all runs."""
    differ = [key for key in ("model", "data", "shards") if len({str(r.config.get(key)) for r in runs}) > 1]
    words = [str(run.config.get(key)) for key in differ]
    links = {r.figures.link for r in runs}
    if len(links) > 1 and run.figures.link:
        words.append(run.figures.link)
    if run.state != "done":
        words.append(f"{run.state} after {plural(run.curve.steps[-1], 'step')}")
    return " · ".join(words)
