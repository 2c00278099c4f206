"""`tightwire report`: one page for several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(report)


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of runs.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="PAGE", help="The page to write.")] = Path("report.html"),
) -> None:
    """Write one self-contained HTML page: loss against steps, seconds and bytes, the table, every configuration."""
    from tightwire.cli.show import console
    from tightwire.telemetry.report import write_report

    write_report(runs, out)
    console(None).print(f"{out}")
