"""`tightwire resume`: go on with a run that was stopped or cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tightwire.cli.options import Json


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(resume)


def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    workers: Annotated[int | None, typer.Option(help="With another number of workers.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Up to another number of epochs.")] = None,
    json_to: Json = None,
) -> None:
    """Go on from the last checkpoint of a run, also with another number of workers.

    What another number of workers changes is said in the run's events; what the workers owed each other is conserved.
    """
    from tightwire.cli.show import console, human_score, live, write_json
    from tightwire.engines.config import ConfigError, RunConfig, show_recipe
    from tightwire.engines.start import RunDiverged
    from tightwire.engines.start import run as start
    from tightwire.run.checkpoint import latest

    words = console(json_to)
    config = RunConfig.load(run)
    if latest(run / "checkpoints") is None:
        raise ConfigError(f"{run} has no complete checkpoint to go on from; start it anew with tightwire train")
    if workers is not None:
        config = config.but(workers=workers)
    if epochs is not None:
        config = config.but(epochs=epochs, steps=None)
    with live(config.path, f"{show_recipe(config.recipe, config.params, config.codec)} × {config.workers}", words):
        result = start(config, resume=True)
    words.print(f"[bold]{config.recipe}[/]: {human_score(result)} after {result['steps']} steps")
    write_json(result, json_to)
    if result.get("diverged"):
        raise RunDiverged(config, result["steps"])
