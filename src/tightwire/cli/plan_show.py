"""A plan on a terminal, as a page, as a picture."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tightwire.cli.show import human_bytes, write_json
from tightwire.files import write_text
from tightwire.plan.advice import Plan, advice, limit, show_time
from tightwire.plan.kinds import WORDS
from tightwire.plan.page import about, page, show_value
from tightwire.plan.search import Ranking, Row

_STYLES = {"same": "green", "rounded": "cyan", "apart": "yellow", "stale": "magenta"}
_FULL = 12  # lines of the ranking that are printed; the rest is in the JSON and on the page


def say_plan(words: Console, plan: Plan, command: str) -> None:
    """The advice, the ranking, speed-ups by workers, and what cannot run."""
    ranking = plan.chosen
    words.print(f"[bold]{plan.profile.model or 'the profile'}[/] [dim]{about(plan)}[/]\n")
    first, *more = advice(plan)
    text = Text.from_markup(f"[bold]{first}[/]")
    for line in more:
        text.append(f"\n{line}")
    words.print(Panel(text, border_style="green", padding=(0, 1)))
    words.print(ranking_table(ranking))
    kinds = dict.fromkeys(row.candidate.kind for row in _printed(ranking))
    words.print("[dim]" + " · ".join(f"[{_STYLES[kind]}]{kind}[/]: {WORDS[kind]}" for kind in kinds) + "[/]")
    if len(plan.rankings) > 1:
        words.print()
        words.print(speedup_table(plan))
    if ranking.refused:
        words.print(f"\n[dim]Not possible there: {', '.join(name for name, _ in ranking.refused)} (--json says why)[/]")
    words.print(f"\nRun it:\n  [bold]{command}[/]", soft_wrap=True)


def _printed(ranking: Ranking) -> list[Row]:
    """The top of the ranking, and below it the best of each kind and plain synchronous SGD, wherever they are."""
    top = list(ranking.rows[:_FULL])
    named = [ranking.row("sync-sgd"), ranking.advised]
    kinds = {row.candidate.kind: row for row in reversed(ranking.rows)}
    wanted = {id(row) for row in [*top, *named, *kinds.values()] if row is not None}
    return [row for row in ranking.rows if id(row) in wanted]


def ranking_table(ranking: Ranking) -> Table:
    """One line a recipe, the best first."""
    table = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    head = {"time": "an epoch", "bytes": "bytes an epoch", "cost": "cost of an epoch"}[ranking.aim.objective]
    for name, justify in (("", "right"), ("recipe", "left"), ("a step", "right"), ("speed-up", "right"),
                          (head, "right"), ("sent a step", "right"), ("limited by", "left"), ("optimisation", "left"),
                          ):  # fmt: skip
        table.add_column(name, justify=justify, no_wrap=name != "recipe")  # type: ignore[arg-type]
    places = {id(row): place for place, row in enumerate(ranking.rows, start=1)}
    last = 0
    for row in _printed(ranking):
        found, kind, place = row.prediction, row.candidate.kind, places[id(row)]
        if place > last + 1:
            table.add_row("", "[dim]…[/]")
        last = place
        name = f"[bold]{row.candidate}[/] [green]◀[/]" if row is ranking.advised else str(row.candidate)
        table.add_row(
            f"[dim]{place}[/]", name, show_time(found.step_s), f"{found.speedup:.2f}×", show_value(ranking, row),
            human_bytes(found.tx_nbytes), limit(row), f"[{_STYLES[kind]}]{kind}[/]",
        )  # fmt: skip
    return table


def speedup_table(plan: Plan) -> Table:
    """Speed-up over one worker, by workers: what is advised at each number, and plain synchronous SGD."""
    table = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("workers")
    for ranking in plan.rankings:
        table.add_column(str(ranking.workers), justify="right")
    plain = [ranking.row("sync-sgd") for ranking in plan.rankings]
    if any(plain):
        table.add_row("sync-sgd", *("–" if row is None else f"{row.prediction.speedup:.2f}×" for row in plain))
    use = [ranking.advised for ranking in plan.rankings]
    table.add_row("advised", *(f"{row.prediction.speedup:.2f}×" for row in use))
    table.add_row("", *(f"[dim]{row.candidate.name}[/]" for row in use))
    return table


def write_picture(plan: Plan, command: str, out: Path) -> None:
    """A page, or the page drawn into a PNG file."""
    from tightwire.engines.planning import timelines

    draw(page(plan, timelines(plan), command), out)


def draw(text: str, out: Path) -> None:
    """Write a page, or draw it if the name ends in .png."""
    from tightwire.engines.screenshot import screenshot
    from tightwire.telemetry.report.shell import write_whole

    if out.suffix.lower() != ".png":
        write_whole(text, out)
        return
    with TemporaryDirectory(prefix="tightwire-") as folder:
        drawn = Path(folder) / "plan.html"
        write_whole(text, drawn)
        screenshot(drawn, out)


def say_published(words: Console, out: Path | None, json_to: str | None) -> None:
    """What papers printed beside what the model gives; ``out`` is Markdown, a page or a picture."""
    from tightwire.plan.published.drawn import drawn
    from tightwire.plan.published.page import as_data, lines, markdown, results

    found = results()
    table = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("paper", "what", "printed", "model", "verdict"):
        table.add_column(name, overflow="fold")
    for row in lines(found):
        table.add_row(*row)
    words.print(table)
    if out is not None:
        if out.suffix.lower() == ".md":
            write_text(out, markdown(found))
        else:
            draw(drawn(found), out)
        words.print(f"[dim]{out}[/]")
    if json_to:
        write_json(as_data(found), json_to)
