"""`tightwire train`: one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tightwire.cli.options import Json, run_options

Recipe = Annotated[
    str,
    typer.Option(
        help="A recipe of `tightwire recipes`, with parameters if you like: local-sgd, dgc:density=0.01, "
        "diloco:tau=50; or auto: what `tightwire plan` advises here."
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(run_options(train))


def train(
    run: dict[str, Any],
    recipe: Recipe = "sync-sgd",
    out: Annotated[str | None, typer.Option(metavar="DIR", help="The run's folder (default: runs/RECIPE).")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a run that is in that folder.")] = False,
    json_to: Json = None,
) -> None:
    """Train a network by a recipe.

    Starts the workers on this machine (or on hosts of the lab, or uses those that torchrun started), writes
    checkpoints, events and the result into the run's folder, and prints what came out. Ctrl-C saves and stops;
    `tightwire resume` goes on.
    """
    from tightwire.cli.show import console, human_bytes, human_score, human_seconds, live, write_json
    from tightwire.engines.config import RunConfig, parse_recipe, show_recipe
    from tightwire.engines.start import RunDiverged, fresh_folder, under_torchrun
    from tightwire.engines.start import run as start

    name, params = parse_recipe(recipe)
    config = RunConfig(recipe=name, params=params, folder=out or f"runs/{name}", **run)
    if name == "auto":
        config = _planned(config, json_to)
    if under_torchrun():
        from tightwire.engines.worker import work_under_torchrun

        result = work_under_torchrun(config)
        if result is not None:
            write_json(result, json_to)
        return
    words = console(json_to)
    fresh_folder(config, overwrite=overwrite, named=out is not None)
    label = f"{show_recipe(config.recipe, config.params, config.codec)} × {config.workers}"
    with live(config.path, label, words):
        result = start(config)
    wire = result["wire"]
    ratio = f", payload ratio {wire['payload_ratio']:.1f}" if wire["payload_ratio"] else ""
    words.print(
        f"[bold]{label}[/]: {human_score(result)} after {result['steps']} steps in {human_seconds(result['seconds'])} "
        f"({result['samples_per_second']:,.0f} samples/s); {human_bytes(wire['tx_bytes'])} sent a worker{ratio}; "
        f"link: {wire['link']}"
    )
    words.print(f"[dim]{Path(config.folder)}: result.json, model.safetensors, events, checkpoints[/]")
    write_json(result, json_to)
    if result.get("diverged"):
        raise RunDiverged(config, result["steps"])


def _planned(config: Any, json_to: str | None) -> Any:
    """The run with the recipe that a plan advises, after saying which and why."""
    from tightwire.cli.show import console
    from tightwire.engines.auto import choose
    from tightwire.engines.config import ConfigError
    from tightwire.engines.start import under_torchrun

    if config.params:
        raise ConfigError(f"recipe=auto takes no parameters, not {', '.join(config.params)}; name a recipe to set them")
    if under_torchrun():
        raise ConfigError("recipe=auto: every machine would measure and choose for itself; run tightwire plan first")
    words = console(json_to)
    with words.status("planning") as status:
        chosen = choose(config, told=status.update)
    found = chosen.plan or {}
    words.print(f"[bold]auto: {found['chosen']}[/]. {' '.join(found['why'])}")
    return chosen
