"""What every page with figures has: plotly inside, two schemes of colours, a legend that hides lines, data as JSON."""

from __future__ import annotations

import json
from html import escape
from importlib import import_module
from importlib.resources import files
from pathlib import Path

from tightwire.files import write_text
from tightwire.telemetry.report.figures import Figure
from tightwire.telemetry.report.record import ReportError
from tightwire.telemetry.report.style import DARK, LIGHT, Style


def write_whole(text: str, out: Path) -> None:
    """Write a page, whole or not at all."""
    try:
        write_text(out, text)
    except OSError as error:
        raise ReportError(f"{out} cannot be written ({error.strerror}); name another file") from None


def embed(data: object) -> str:
    r"""JSON that may stand inside a script element: nothing in it can end the element or begin another.

    >>> embed("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)  # ASCII: U+2028 comes out escaped
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def plotly() -> tuple[str, str]:
    """Plotly's JavaScript as its wheel ships it, and the version. Imported here, for only a report needs it."""
    try:
        offline, root = import_module("plotly.offline"), import_module("plotly")
    except ImportError:
        raise ReportError("a report needs plotly, which is not installed; run: pip install plotly") from None
    return str(offline.get_plotlyjs()).replace("</script", r"<\/script"), str(root.__version__)


def part(name: str) -> str:
    """A file that lies beside this one."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def palette_css() -> str:
    """``--run-0`` and so on, for both schemes: the colours of the swatches. Paper is light."""
    light = "".join(f"--run-{n}:{color};" for n, color in enumerate(LIGHT))
    dark = "".join(f"--run-{n}:{color};" for n, color in enumerate(DARK))
    swatches = "".join(f".run-{n}{{--run:var(--run-{n})}}" for n in range(len(LIGHT)))
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{swatches}\n"


def chip(number: int, look: Style) -> str:
    """A button of the legend."""
    return (
        f'<button type="button" class="chip" data-run="{number}" aria-pressed="true">'
        f"{look.swatch()}{escape(look.label)}</button>"
    )


def figure(picture: Figure) -> str:
    """The place where a figure is drawn."""
    caption = f"<figcaption>{escape(picture.caption)}</figcaption>" if picture.caption else ""
    return (
        f'<figure class="card" id="figure-{picture.key}"><h3>{escape(picture.title)}</h3>'
        f'<div class="plot" role="img" aria-label="{escape(picture.title)}"></div>{caption}</figure>'
    )
