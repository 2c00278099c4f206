"""The page: one HTML file that needs nothing else, now or in ten years.

Plotly's JavaScript, the styles and the data are inside; a content security policy forbids the browser to load anything
from anywhere. What comes from run folders is escaped: as HTML, as JSON inside a script, and as plotly's own mark-up.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from platform import python_version
from string import Template

from tightwire import __version__
from tightwire.telemetry.report.details import details
from tightwire.telemetry.report.figures import Figure, figures, lines
from tightwire.telemetry.report.reading import read_run
from tightwire.telemetry.report.record import ReportError, RunRecord
from tightwire.telemetry.report.style import DARK, LIGHT, Style, styles
from tightwire.telemetry.report.summary import compared, headline, tiles, totals
from tightwire.telemetry.report.table import speedups, table


def write_report(folders: Sequence[Path], out: Path, title: str | None = None) -> None:
    """Write the report of some runs to ``out``, whole or not at all; a folder named twice is shown once."""
    if not folders:
        raise ReportError("no runs to report on; name at least one run folder")
    runs = [read_run(folder) for folder in {folder.resolve(): folder for folder in folders}.values()]
    text = page(runs, title=title, now=datetime.now(UTC))
    partial = out.with_name(f".{out.name}.partial")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(out)
    except OSError as error:
        raise ReportError(f"{out} cannot be written ({error.strerror}); name another file") from None


def page(runs: Sequence[RunRecord], *, title: str | None, now: datetime) -> str:
    """The whole page."""
    looks = styles(runs)
    pictures = figures(runs, looks)
    data = {
        "columns": lines(runs),
        "figures": [picture.plain() for picture in pictures],
        "palette": {"light": LIGHT, "dark": DARK},
    }
    script, version = _plotly()
    return Template(_part("page.html")).substitute(
        title=escape(title or headline(runs)),
        compared=escape(compared(runs)),
        tiles=tiles(runs, looks),
        totals=escape(totals(runs)),
        table=table(runs, looks),
        base=escape(_base(runs, looks)),
        legend="".join(_chip(number, look) for number, look in enumerate(looks)),
        figures="".join(_figure(picture) for picture in pictures),
        details="".join(details(run, look) for run, look in zip(runs, looks, strict=True)),
        versions=escape(f"tightwire {__version__} · plotly {version} · Python {python_version()}"),
        written=f"{now:%Y-%m-%d %H:%M} UTC",
        css=_palette_css() + _part("page.css"),
        js=_part("page.js"),
        data=embed(data),
        plotly=script,
    )


def embed(data: object) -> str:
    r"""JSON that may stand inside a script element: nothing in it can end the element or begin another.

    >>> embed("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)  # ASCII: U+2028 comes out escaped
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def _plotly() -> tuple[str, str]:
    """Plotly's JavaScript as its wheel ships it, and the version. Imported here, for only a report needs it."""
    try:
        offline, root = import_module("plotly.offline"), import_module("plotly")
    except ImportError:
        raise ReportError("a report needs plotly, which is not installed; run: pip install plotly") from None
    return str(offline.get_plotlyjs()).replace("</script", r"<\/script"), str(root.__version__)


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _palette_css() -> str:
    """``--run-0`` and so on, for both schemes: the colours of the swatches. Paper is light."""
    light = "".join(f"--run-{n}:{color};" for n, color in enumerate(LIGHT))
    dark = "".join(f"--run-{n}:{color};" for n, color in enumerate(DARK))
    swatches = "".join(f".run-{n}{{--run:var(--run-{n})}}" for n in range(len(LIGHT)))
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{swatches}\n"


def _base(runs: Sequence[RunRecord], looks: Sequence[Style]) -> str:
    """What the column of speed-ups is over."""
    bases = [looks[base].label for base in dict.fromkeys(speedups(runs)[1])]
    known = len(runs) > 1 and any(run.figures.samples_per_second for run in runs)
    return f"Speed-up is in samples per second over {' or '.join(bases)}." if known else ""


def _chip(number: int, look: Style) -> str:
    return (
        f'<button type="button" class="chip" data-run="{number}" aria-pressed="true">'
        f"{look.swatch()}{escape(look.label)}</button>"
    )


def _figure(picture: Figure) -> str:
    caption = f"<figcaption>{escape(picture.caption)}</figcaption>" if picture.caption else ""
    return (
        f'<figure class="card" id="figure-{picture.key}"><h3>{escape(picture.title)}</h3>'
        f'<div class="plot" role="img" aria-label="{escape(picture.title)}"></div>{caption}</figure>'
    )
