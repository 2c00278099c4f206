"""The bytes of a compressed network as bars: an HTML page by plotly, or an SVG picture drawn here."""

from __future__ import annotations

from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from tightwire.algebra.errors import UsageError
from tightwire.cli.inspect import KINDS, parts
from tightwire.files import write_text

if TYPE_CHECKING:
    from tightwire.compress.artifact.account import Account

_BAR, _LEFT, _WIDTH = 22, 220, 960


def draw(found: Account, path: Path) -> None:
    """Write the plot; the ending of the name says which kind."""
    if path.suffix not in (".html", ".svg"):
        raise UsageError(f"{path} must end in .html or .svg")
    write_text(path, _page(found) if path.suffix == ".html" else _picture(found))


def _bars(found: Account) -> list[tuple[str, dict[str, int]]]:
    """One bar a tensor, and one for the header."""
    header = {"checksum": found.header_nbytes + found.digest_nbytes}
    return [*((row.name, parts(row)) for row in found.rows), ("header", header)]


def _title(found: Account) -> str:
    return f"{found.nbytes:,} bytes of {found.dense_nbytes:,}: {found.ratio:.1f}×"


def _page(found: Account) -> str:
    go = import_module("plotly.graph_objects")
    bars = _bars(found)
    figure = go.Figure(
        [
            go.Bar(name=kind, y=[name for name, _ in bars], x=[p.get(kind, 0) for _, p in bars], orientation="h",
                   marker_color=colour)
            for kind, colour in KINDS.items()
        ]
    )  # fmt: skip
    figure.update_layout(
        barmode="stack", title=_title(found), xaxis_title="bytes", template="plotly_white",
        height=max(320, 120 + _BAR * len(bars)), yaxis={"autorange": "reversed"},
    )  # fmt: skip
    return str(figure.to_html(include_plotlyjs=True, full_html=True))


def _picture(found: Account) -> str:
    bars = _bars(found)
    scale = (_WIDTH - _LEFT - 90) / max(1, *(sum(p.values()) for _, p in bars))
    height = 70 + _BAR * len(bars)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="10" y="20" font-size="15">{escape(_title(found))}</text>',
    ]
    for number, (kind, colour) in enumerate(KINDS.items()):
        x = _LEFT + 110 * number
        lines.append(f'<rect x="{x}" y="30" width="10" height="10" fill="{colour}"/>')
        lines.append(f'<text x="{x + 14}" y="39">{kind}</text>')
    for number, (name, by_kind) in enumerate(bars):
        y, end = 52 + _BAR * number, float(_LEFT)
        lines.append(f'<text x="{_LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>')
        for kind, nbytes in by_kind.items():
            lines.append(f'<rect x="{end:.1f}" y="{y}" width="{nbytes * scale:.1f}" height="16" fill="{KINDS[kind]}"/>')
            end += nbytes * scale
        lines.append(f'<text x="{end + 5:.1f}" y="{y + 13}">{sum(by_kind.values()):,}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"
