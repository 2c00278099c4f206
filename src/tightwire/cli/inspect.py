"""`tightwire inspect`: where every byte of a compressed network goes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tightwire.cli.options import Json

if TYPE_CHECKING:
    from rich.table import Table

    from tightwire.compress.artifact.account import Account

KINDS = {"positions": "#4c78a8", "codes": "#f58518", "codebook": "#54a24b", "plain": "#b279a2", "checksum": "#bab0ac"}


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(inspect)


def inspect(
    file: Annotated[Path, typer.Argument(metavar="MODEL.twz", help="A compressed network.")],
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="PAGE", help="Draw it: a page (.html) or a picture (.svg).")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option("--batch", min=1, metavar="N", help="Also say how each layer runs here, for batches of N."),
    ] = None,
    json_to: Json = None,
) -> None:
    """Show where every byte of a compressed network goes: per tensor, and by kind."""
    from tightwire.cli.show import console, write_json
    from tightwire.compress.artifact.account import account

    found = account(file)
    out = console(json_to)
    out.print(_headline(file, found))
    out.print(_table(found))
    runs = _runs(file, batch) if batch is not None else []
    for choice in runs:
        out.print(f"  {choice}")
    if plot is not None:
        from tightwire.cli.inspect_plot import draw

        draw(found, plot)
        out.print(f"{plot}")
    write_json({**as_json(found), **({"runs": [asdict(choice) for choice in runs]} if runs else {})}, json_to)


def _runs(file: Path, batch: int) -> list[Any]:
    """The form of each layer that is fastest on this machine."""
    from tightwire.compress.run.build import choices
    from tightwire.compress.run.load import load

    return list(choices(load(file, batch=batch)))


def parts(row: Any) -> dict[str, int]:
    """The bytes of a tensor by kind, in the order of `KINDS`."""
    known = {kind: getattr(row, f"{kind}_nbytes") for kind in KINDS if kind != "checksum"}
    return {**known, "checksum": row.nbytes - sum(known.values())}


def as_json(found: Account) -> dict[str, Any]:
    """The account as one JSON object."""
    return {
        "nbytes": found.nbytes,
        "dense_nbytes": found.dense_nbytes,
        "ratio": found.ratio,
        "header_nbytes": found.header_nbytes,
        "digest_nbytes": found.digest_nbytes,
        "model": asdict(found.architecture) if found.architecture else None,
        "facts": found.facts,
        "tensors": [{**asdict(row), "nbytes": row.nbytes} for row in found.rows],
    }


def _headline(file: Path, found: Account) -> str:
    from tightwire.cli.show import human_bytes

    what = found.architecture.name if found.architecture else "tensors without a network"
    sizes = f"{human_bytes(found.dense_nbytes)} → {human_bytes(found.nbytes)}"
    return f"[bold]{file}[/bold]  {what}  {sizes}, [bold]{found.ratio:.1f}×[/bold] everything included"


def _table(found: Account) -> Table:
    from rich.table import Table

    table = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0), show_footer=True)
    totals = {kind: sum(parts(row)[kind] for row in found.rows) for kind in KINDS}
    overhead = found.header_nbytes + found.digest_nbytes + totals["checksum"]
    table.add_column("tensor", footer="header and checksums\nfile")
    for head in ("shape", "density", "bits", "coder"):
        table.add_column(head, justify="right", no_wrap=True)
    for kind in ("positions", "codes", "codebook", "plain"):
        table.add_column(kind, justify="right", footer=f"\n{totals[kind]:,}")
    table.add_column("bytes", justify="right", footer=f"{overhead:,}\n{found.nbytes:,}")
    table.add_column("share", justify="right", footer=f"{overhead / found.nbytes:.1%}\n100.0%")
    table.add_column("ratio", justify="right", footer=f"\n{found.ratio:.1f}×")
    for row in found.rows:
        nbytes = row.nbytes - parts(row)["checksum"]
        table.add_row(
            row.name, "×".join(map(str, row.shape)), f"{row.density:.1%}", str(row.bits), row.coder,
            *(f"{nbytes:,}" if nbytes else "" for nbytes in list(parts(row).values())[:-1]),
            f"{nbytes:,}", f"{nbytes / found.nbytes:.1%}", f"{row.dense_nbytes / max(1, nbytes):.1f}×",
        )  # fmt: skip
    return table
