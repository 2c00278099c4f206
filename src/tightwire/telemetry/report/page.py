"""The page: one HTML file that needs nothing else, now or in ten years.

Plotly's JavaScript, the styles and the data are inside; a content security policy forbids the browser to load anything
from anywhere. What comes from run folders is escaped: as HTML, as JSON inside a script, and as plotly's own mark-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from platform import python_version
from string import Template

from tightwire import __version__
from tightwire.telemetry.report.details import details
from tightwire.telemetry.report.figures import figures, lines
from tightwire.telemetry.report.reading import read_run
from tightwire.telemetry.report.record import ReportError, RunRecord
from tightwire.telemetry.report.shell import chip, embed, figure, palette_css, part, plotly, write_whole
from tightwire.telemetry.report.style import DARK, LIGHT, Style, styles
from tightwire.telemetry.report.summary import compared, headline, tiles, totals
from tightwire.telemetry.report.table import speedups, table


def write_report(folders: Sequence[Path], out: Path, title: str | None = None) -> None:
    """Write the report of some runs to ``out``, whole or not at all; a folder named twice is shown once."""
    if not folders:
        raise ReportError("no runs to report on; name at least one run folder")
    runs = [read_run(folder) for folder in {folder.resolve(): folder for folder in folders}.values()]
    text = page(runs, title=title, now=datetime.now(UTC))
    write_whole(text, out)


def page(runs: Sequence[RunRecord], *, title: str | None, now: datetime) -> str:
    """The whole page."""
    looks = styles(runs)
    pictures = figures(runs, looks)
    data = {
        "columns": lines(runs),
        "figures": [picture.plain() for picture in pictures],
        "palette": {"light": LIGHT, "dark": DARK},
    }
    script, version = plotly()
    return Template(part("page.html")).substitute(
        title=escape(title or headline(runs)),
        compared=escape(compared(runs)),
        tiles=tiles(runs, looks),
        totals=escape(totals(runs)),
        table=table(runs, looks),
        base=escape(_base(runs, looks)),
        legend="".join(chip(number, look) for number, look in enumerate(looks)),
        figures="".join(figure(picture) for picture in pictures),
        details="".join(details(run, look) for run, look in zip(runs, looks, strict=True)),
        versions=escape(f"tightwire {__version__} · plotly {version} · Python {python_version()}"),
        written=f"{now:%Y-%m-%d %H:%M} UTC",
        css=palette_css() + part("page.css"),
        js=part("page.js"),
        data=embed(data),
        plotly=script,
    )


def _base(runs: Sequence[RunRecord], looks: Sequence[Style]) -> str:
    """What the column of speed-ups is over."""
    bases = [looks[base].label for base in dict.fromkeys(speedups(runs)[1])]
    known = len(runs) > 1 and any(run.figures.samples_per_second for run in runs)
    return f"Speed-up is in samples per second over {' or '.join(bases)}." if known else ""
