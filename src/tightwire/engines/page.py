"""What the reports of `shrink` and `search` have in common: one HTML page that loads nothing, its tables and keys."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from tightwire.engines.config import ConfigError
from tightwire.files import write_text

Cell: TypeAlias = str | float
"""Words, or a share that is drawn as a bar."""

COLORS = ("#0072b2", "#d55e00", "#00875f", "#b4528a", "#b07a00", "#5f6b7a", "#7d4b32")
"""Of the styles c0, c1, …; told apart by people who do not see all colours."""

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>{title}</title><style>{css}</style></head>
<body><main><header><p class="brand">tightwire {command}</p><h1>{title}</h1><p class="compared">{summary}</p></header>
{sections}</main></body></html>
"""
_CSS = """
td.wide{width:30%}td.wide div{display:flex;align-items:center;justify-content:space-between;gap:1em}
.bar{flex:1}.share{display:block;height:.8em;border-radius:2px;background:#3b6ea8;min-width:1px}
.plan{line-height:1.7}.plot{width:100%;min-width:34rem;height:auto;font:11px system-ui,sans-serif}
.plot text{fill:currentColor;opacity:.75}.plot .end{text-anchor:end}.plot .mid{text-anchor:middle}
.axis,.grid,.line{fill:none}.axis{stroke:currentColor;opacity:.6}.grid{stroke:currentColor;opacity:.13}
.line{stroke-width:2}.line.thin{stroke-width:1.6}.dot{opacity:.35}.star{opacity:1;stroke:currentColor}
.target{stroke:currentColor;stroke-dasharray:5 4;opacity:.7}
.key{display:inline-block;margin:0 1.2em .4em 0}.key i{display:inline-block;width:.9em;height:.9em;border-radius:2px;
margin-right:.4em;vertical-align:-.1em}
"""


def page(command: str, title: str, summary: str, sections: Sequence[tuple[str, str]]) -> str:
    """The whole page: headings, and HTML below each."""
    css = files("tightwire.telemetry.report").joinpath("page.css").read_text(encoding="utf-8")
    colors = "".join(
        f".c{n}{{fill:{c};stroke:{c};background:{c}}}.line.c{n}{{fill:none}}rect.c{n}{{stroke:none}}"
        for n, c in enumerate(COLORS)
    )
    bodies = "\n".join(f"<section><h2>{escape(name)}</h2>{body}</section>" for name, body in sections)
    return _PAGE.format(
        command=command, title=escape(title), css=css + _CSS + colors, summary=escape(summary), sections=bodies
    )


def write_page(html: str, out: Path) -> None:
    """Write a page, whole or not at all."""
    try:
        write_text(out, html)
    except OSError as error:
        raise ConfigError(f"{out} cannot be written ({error.strerror}); name another --out") from None


def legend(names: Sequence[tuple[str, str]]) -> str:
    """What the colours of a drawing mean: a style and its words."""
    return "<p>" + "".join(f'<span class="key"><i class="{c}"></i>{escape(text)}</span>' for c, text in names) + "</p>"


def table(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A table that scrolls by itself where it is too wide."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(str(row[0]))}</th>{"".join(_cell(value) for value in row[1:])}</tr>'
        for row in rows
    )
    return f'<div class="scroll"><table class="runs"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: Cell) -> str:
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    return (
        f'<td class="wide"><div><span class="bar"><span class="share" style="width:{100 * min(max(value, 0), 1):.1f}%">'
        f"</span></span>{value:.1%}</div></td>"
    )
