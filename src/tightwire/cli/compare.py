"""`tightwire compare`: several recipes on the same model, data, seed and number of samples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tightwire.cli.options import Json, run_options


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(run_options(compare))


def compare(
    run: dict[str, Any],
    recipes: Annotated[str, typer.Option(help="Recipes, separated by commas: sync-sgd,dgc:density=0.01,local-sgd.")] = (
        "sync-sgd,local-sgd,one-bit,powersgd,dgc"
    ),
    out: Annotated[str, typer.Option(metavar="DIR", help="A folder for the runs and report.html.")] = "runs/compare",
    alone: Annotated[bool, typer.Option("--alone/--no-alone", help="Also train one worker, for the speed-up.")] = True,
    json_to: Json = None,
) -> None:
    """Train the same thing by several recipes, and print them side by side.

    Every recipe sees the same number of samples. The table gives score, time, samples a second, speed-up over one
    worker, bytes sent by a worker, payload ratio, and in the lab the kernel's count divided by ours. A report goes into
    the folder.
    """
    from tightwire.cli.show import console, human_score, live, result_table, write_json
    from tightwire.engines.config import RunConfig, parse_recipe, show_recipe
    from tightwire.engines.start import fresh_folder
    from tightwire.engines.start import run as start
    from tightwire.telemetry.report import write_report

    words = console(json_to)
    wanted = [parse_recipe(text) for text in recipes.split(",") if text]
    base = RunConfig(**run)
    configs = [
        base.but(recipe=name, params=params, folder=f"{out}/{show_recipe(name, params).replace(':', '_')}")
        for name, params in wanted
    ]
    if alone and base.workers > 1:
        one = base.but(recipe="sync-sgd", codec=None, workers=1, lab=None, link=None, batch=base.batch * base.workers)
        configs.insert(0, one.but(folder=f"{out}/one-worker"))
    rows = []
    for config in configs:
        fresh_folder(config, overwrite=True, named=True)
        label = f"{show_recipe(config.recipe, config.params, config.codec)} × {config.workers}"
        with live(config.path, label, words):
            rows.append(start(config))
        words.print(f"[green]✓[/] {label}: {human_score(rows[-1])}")
    single = next((row["samples_per_second"] for row in rows if row["workers"] == 1), None)
    words.print()
    words.print(result_table(rows, single=single))
    page = Path(out) / "report.html"
    write_report([config.path for config in configs], page)
    words.print(f"\n[dim]{page}[/]")
    write_json({"rows": rows}, json_to)
