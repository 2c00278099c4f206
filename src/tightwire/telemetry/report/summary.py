"""The top of the page: what was compared, what came out, in words and a few large numbers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tightwire.telemetry.report.record import Figures, RunRecord
from tightwire.telemetry.report.style import Style
from tightwire.telemetry.report.units import (
    plural,
    show_accuracy,
    show_bytes,
    show_number,
    show_ratio,
    show_seconds,
)

CLOSE_ACCURACY, CLOSE_PERPLEXITY = 0.02, 1.05  # what is about as good as the best


def headline(runs: Sequence[RunRecord]) -> str:
    """The title nobody gave."""
    if len(runs) == 1:
        return f"{runs[0].name}, {plural(runs[0].workers, 'worker')}"
    recipes = len({run.config["recipe"] for run in runs})
    return f"{recipes} recipes compared" if recipes == len(runs) else f"{len(runs)} runs compared"


def compared(runs: Sequence[RunRecord]) -> str:
    """Model, data, workers and so on: what was the same in all runs, and where they differ."""
    days = sorted({f"{run.when:%Y-%m-%d}" for run in runs})
    links = {run.figures.link for run in runs} - {None}
    words = [
        f"{_values(runs, 'model')} on {_values(runs, 'data')}",
        f"{_values(runs, 'workers')} worker{'' if {run.workers for run in runs} == {1} else 's'}",
        f"{_values(runs, 'shards')} shards" if any(run.config.get("shards") for run in runs) else "",
        f"seed {_values(runs, 'seed')}" if any(run.config.get("seed") is not None for run in runs) else "",
        str(*links) if len(links) == 1 else "",
        f"trained {days[0]}" if len(days) == 1 else f"trained {days[0]} to {days[-1]}",
    ]
    return " · ".join(word for word in words if word)


def _values(runs: Sequence[RunRecord], key: str) -> str:
    values = {run.config.get(key) for run in runs}
    found = [str(value) for value in sorted(values, key=lambda value: (str(type(value)), value))]
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"


def totals(runs: Sequence[RunRecord]) -> str:
    """All runs together."""
    steps = sum(run.curve.steps[-1] for run in runs)
    seconds = sum(run.figures.seconds or 0 for run in runs)
    sent = sum((run.figures.tx_bytes or 0) * run.workers for run in runs)
    unfinished = sum(run.state != "done" for run in runs)
    text = (
        f"In all: {plural(len(runs), 'run')}, {steps:,} steps, {show_seconds(seconds)} of training, "
        f"{show_bytes(sent)} sent by all workers."
    )
    return f"{text} Without a result: {plural(unfinished, 'run')}." if unfinished else text


def tiles(runs: Sequence[RunRecord], looks: Sequence[Style]) -> str:
    """The best run in quality, in traffic among those about as good, and in speed."""
    found = [_quality(runs, looks), _frugal(runs, looks), _fast(runs, looks)]
    return "".join(tile for tile in found if tile)


def _tile(head: str, figure: str, look: Style, about: str = "") -> str:
    return (
        f'<div class="tile"><p class="head">{escape(head)}</p><p class="figure">{escape(figure)}</p>'
        f'<p class="who">{look.swatch()}{escape(look.label)}</p><p class="about">{escape(about)}</p></div>'
    )


def _ranked(runs: Sequence[RunRecord]) -> list[int]:
    """Runs by quality, best first: by accuracy if any has one, else by perplexity."""
    accuracy = {n: run.figures.accuracy for n, run in enumerate(runs) if run.figures.accuracy is not None}
    if accuracy:
        return sorted(accuracy, key=lambda n: -(accuracy[n] or 0))
    perplexity = {n: run.figures.perplexity for n, run in enumerate(runs) if run.figures.perplexity is not None}
    return sorted(perplexity, key=lambda n: perplexity[n] or 0)


def _quality(runs: Sequence[RunRecord], looks: Sequence[Style]) -> str:
    ranked = _ranked(runs)
    if not ranked:
        return ""
    best, head = runs[ranked[0]].figures, "best" if len(runs) > 1 else "test"
    if best.accuracy is not None:
        return _tile(f"{head} accuracy", show_accuracy(best.accuracy), looks[ranked[0]])
    return _tile(f"{head} perplexity", show_number(best.perplexity or 0), looks[ranked[0]])


def _frugal(runs: Sequence[RunRecord], looks: Sequence[Style]) -> str:
    """Fewest bytes among the good of those that send: a run that sends little and learns little has saved nothing."""
    sent = {n: runs[n].figures.tx_bytes or 0 for n in _ranked(runs)}
    sending = [n for n in sent if sent[n] > 0]
    if not sending:
        return ""
    best = runs[sending[0]].figures
    good = [n for n in sending if _close(runs[n].figures, best)]
    least, most = min(good, key=sent.__getitem__), max(sent.values())
    if len(runs) == 1:
        return _tile("sent per worker", show_bytes(most), looks[least])
    within = "2 points" if best.accuracy is not None else "5 %"
    times = f"{show_ratio(most / sent[least])} less than the most, " if most > sent[least] else ""
    return _tile("least sent at full quality", show_bytes(sent[least]), looks[least],
                 f"{times}within {within} of the best")  # fmt: skip


def _close(one: Figures, best: Figures) -> bool:
    """About as good as the best."""
    if best.accuracy is not None:
        return one.accuracy is not None and one.accuracy >= best.accuracy - CLOSE_ACCURACY
    return (one.perplexity or 0) <= (best.perplexity or 0) * CLOSE_PERPLEXITY


def _fast(runs: Sequence[RunRecord], looks: Sequence[Style]) -> str:
    rates = {n: run.figures.samples_per_second or 0 for n, run in enumerate(runs)}
    fastest = max(rates, key=rates.__getitem__)
    if not rates[fastest]:
        return ""
    head = "fastest" if len(runs) > 1 else "speed"
    return _tile(head, f"{show_number(rates[fastest])} samples/s", looks[fastest])
