"""`tightwire bench table1`: the layer-wise paper's table, measured on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from tightwire.cli.options import Json

_NAMES = {
    "serial": "Serial", "ceiling": "(ceiling)", "synchronous": "Synchronous", "asgd": "ASGD",
    "layer-wise": "Layer-wise", "layer-wise half": "Layer-wise, half",
    "layer-wise gloo": "Layer-wise, gloo", "layer-wise memory": "Layer-wise, memory", "whole layers": "(whole layers)",
}  # fmt: skip


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    benches = typer.Typer(help="Published tables, measured on this machine.", no_args_is_help=True)
    benches.command()(table1)
    benches.callback()(_several)
    app.add_typer(benches, name="bench")


def _several() -> None:
    """Published tables, measured on this machine."""


def table1(  # noqa: PLR0917 -- one parameter an option
    workers: Annotated[str, typer.Option(help="Numbers of workers, separated by commas.")] = "1,2,4,8",
    systems: Annotated[
        str, typer.Option(help="Rows, separated by commas; there are layer-wise gloo and layer-wise memory, too.")
    ] = ("serial,ceiling,synchronous,asgd,layer-wise,layer-wise half,whole layers"),
    batch: Annotated[int, typer.Option(help="Samples in a minibatch.")] = 1024,
    width: Annotated[int, typer.Option(help="Units in each of the seven hidden layers.")] = 2048,
    outputs: Annotated[int, typer.Option(help="Classes.")] = 10_217,
    steps: Annotated[int, typer.Option(help="Minibatches a worker in a round.")] = 1,
    rounds: Annotated[int, typer.Option(help="Rounds; their median counts.")] = 3,
    accuracy: Annotated[
        str | None, typer.Option(metavar="FILE", help="Frame accuracies: JSON written by benchmarks.frames.")
    ] = None,
    out: Annotated[
        str, typer.Option(metavar="FILE", help="Figures as JSON; rows that are there are not measured again.")
    ] = "runs/table1.json",
    json_to: Json = None,
) -> None:
    """Layer-wise partitioning beside serial, synchronous and asynchronous SGD: accuracy, time, speed-up S, E = S/P.

    One process a worker, one thread a process. Cut short, it goes on where it was.
    """
    from tightwire.cli.show import console, write_json
    from tightwire.engines.config import ConfigError
    from tightwire.engines.table1 import Size
    from tightwire.engines.table1_rows import SYSTEMS, Table, wanted

    asked = [word.strip() for word in systems.split(",") if word.strip()]
    unknown = [system for system in asked if system not in SYSTEMS]
    if unknown:
        raise ConfigError(f"there is no system {unknown[0]!r}; there are {', '.join(SYSTEMS)}")
    try:
        counts = [int(word) for word in workers.split(",")]
    except ValueError:
        raise ConfigError(f"workers={workers}: give whole numbers separated by commas, as 1,2,4,8") from None
    words = console(json_to)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    size = Size(width=width, outputs=outputs, batch=batch, steps=steps, rounds=rounds)
    table = Table(Path(out), size, lambda text: words.print(f"[dim]{text}[/]"))
    if accuracy is not None and not Path(accuracy).exists():
        raise ConfigError(f"there is no file {accuracy}; python -m benchmarks.frames writes one")
    known = json.loads(Path(accuracy).read_text(encoding="utf-8"))["rows"] if accuracy else []
    for system, count in wanted(asked, counts):
        table.measure(system, count)
    words.print(_drawn(table.found, known))
    write_json({**table.found, "accuracy": known}, json_to)


def _drawn(found: dict[str, Any], known: list[dict[str, Any]]) -> Any:
    """The paper's layout, the share of what the machine gives at most, and bytes next to synchronous training."""
    from rich.table import Table

    table = Table(header_style="bold", box=None, pad_edge=False)
    for column in ("System", "P", "F-ACC", "min/10 h", "S", "E", "of ceiling", "fewer bytes"):
        table.add_column(column, justify="left" if column == "System" else "right")
    order = list(_NAMES)
    for row in sorted(found["rows"], key=lambda row: (row["workers"], order.index(row["system"]))):
        ratio, share, fewer = row["S"], row["of_ceiling"], row.get("fewer_bytes")
        table.add_row(
            _NAMES[row["system"]],
            str(row["workers"]),
            _accuracy(known, row),
            f"{row['minutes_per_10_hours']:.1f}",
            "–" if ratio is None else f"{ratio:.2f}",
            "–" if ratio is None else f"{row['E']:.2f}",
            "–" if share is None else f"{share:.2f}",
            "–" if fewer is None else f"{fewer:.1f}×",
        )
    return table


def _accuracy(known: list[dict[str, Any]], row: dict[str, Any]) -> str:
    """The frame accuracy of a row: of layer-wise training the one with weights foretold, where that was measured."""
    for system in (f"{row['system']}+predict", row["system"]):
        for one in known:
            if (one["system"], one["workers"]) == (system, row["workers"]) and "accuracy" in one:
                return f"{100 * one['accuracy']:.2f}"
    return "–"
