"""`tightwire shrink`: a trained network as one small file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tightwire.cli.options import Devices, Json
from tightwire.cli.source_options import KEEP, WHAT, DataFolder, Model, ModelOptions, Overwrite, SourceArgument, option

_GOAL, _HOW = "How small", "How to get there"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(shrink)


def shrink(
    source: SourceArgument,
    *,
    out: Annotated[Path, option("-o", "--out", text="The file to write.", panel=WHAT)] = Path("model.twz"),
    model: Model = None,
    model_option: ModelOptions = None,
    data: Annotated[str | None, option(text="Retrain on this (default: the run's).", panel=WHAT)] = None,
    data_folder: DataFolder = None,
    target_ratio: Annotated[
        float | None, option(text="So many times smaller than the parameters in 4 bytes each.", panel=_GOAL)
    ] = None,
    max_loss: Annotated[
        float | None, option(text="As small as this loss of accuracy allows, in points: 0.0.", panel=_GOAL)
    ] = None,
    policy: Annotated[
        Path | None, option(text="As tightwire search decided, layer by layer.", panel=_GOAL, metavar="POLICY.JSON")
    ] = None,
    prune: Annotated[float | None, option(text="Prune this share of the weights: 0.9.", panel=_GOAL)] = None,
    quality: Annotated[
        float | None, option(text="Prune what is below so many deviations of its layer: 1.5.", panel=_GOAL)
    ] = None,
    bits: Annotated[int, option(text="2 to the power of this many shared values a layer.", panel=_GOAL)] = 4,
    bit_cost: Annotated[
        float, option(text="What a bit weighs against exactness; 0 shares by squares alone.", panel=_GOAL)
    ] = 0.01,
    by: Annotated[
        str, option(text="Densities: layer (equal), network (one threshold), adaptive.", panel=_HOW)
    ] = "adaptive",
    pattern: Annotated[str, option(text="fine, vector:4, kernel, filter, block:4x4, 2:4.", panel=_HOW)] = "fine",
    schedule: Annotated[str, option(text="cubic, one-shot, rounds:5.", panel=_HOW)] = "cubic",
    epochs: Annotated[float, option(text="Of training while pruning.", panel=_HOW)] = 30.0,
    polish_epochs: Annotated[float, option(text="Of training the shared values.", panel=_HOW)] = 5.0,
    lr: Annotated[float, option(text="Learning rate of AdamW while pruning.", panel=_HOW)] = 2e-3,
    augment: Annotated[
        Literal["none", "shift", "crop-flip"],
        option(text="Images while training: shift for digits, crop-flip for photographs.", panel=_HOW),
    ] = "none",
    scan: Annotated[
        bool, option("--scan", text="First draw how much each layer bears alone, in the report.", panel=_HOW)
    ] = False,
    seed: Annotated[int, option(text="The same seed gives the same file on one machine.", panel=_HOW)] = 0,
    device: Annotated[Devices, option(text="Where to compute.", panel=_HOW)] = Devices.cpu,
    work: Annotated[
        Path | None, option(text="Where finished stages are kept (default: OUT.work).", panel=KEEP, metavar="DIR")
    ] = None,
    overwrite: Overwrite = False,
    json_to: Json = None,
) -> None:
    """Prune, share and code a trained network into one file that runs.

    Retrains while it prunes. What is done is kept in a work folder: called again after Ctrl-C, it goes on. Writes the
    file, and a report of every stage and layer beside it.
    """
    from tightwire.cli.show import console, write_json
    from tightwire.cli.shrink_show import bars, tables
    from tightwire.engines.shrink import ShrinkConfig, Wish, shrink_to_file

    wish = Wish(
        prune=prune, quality=quality, bits=bits, bit_cost=bit_cost, by=by, pattern=pattern, schedule=schedule,
        ratio=target_ratio, max_loss=max_loss, epochs=epochs, polish_epochs=polish_epochs, lr=lr, seed=seed,
    )  # fmt: skip
    config = ShrinkConfig(
        source, out, wish.plan(), model=model, options=tuple(model_option or ()), data=data, data_folder=data_folder,
        device=str(device.value), augment=augment, policy=policy, scan=scan, work=work, overwrite=overwrite,
    )  # fmt: skip
    words = console(json_to)
    with bars(words) as told:
        result = shrink_to_file(config, told=told)
    for table in tables(result):
        words.print(table, "")
    words.print(
        f"[bold]{out}[/]: {result['nbytes']:,} bytes, {result['ratio']:.1f} times smaller; report: {result['report']}"
    )
    write_json(result, json_to)
