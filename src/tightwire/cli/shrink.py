"""`tightwire shrink`: a trained network as one small file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tightwire.cli.options import Devices, Json

_GOAL, _HOW, _WHAT, _KEEP = "How small", "How to get there", "Of what", "Surviving"


def _option(*flags: str, text: str, panel: str, metavar: str | None = None) -> Any:
    return typer.Option(*flags, help=text, rich_help_panel=panel, metavar=metavar)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(shrink)


def shrink(
    source: Annotated[Path, typer.Argument(metavar="RUN|FILE", help="A run's folder, or a .safetensors file.")],
    *,
    out: Annotated[Path, _option("-o", "--out", text="The file to write.", panel=_WHAT)] = Path("model.twz"),
    model: Annotated[str | None, _option(text="The network, for a file of weights.", panel=_WHAT)] = None,
    model_option: Annotated[
        list[str] | None, _option(text="An option of the network: norm=batch.", panel=_WHAT, metavar="KEY=VALUE")
    ] = None,
    data: Annotated[str | None, _option(text="Retrain on this (default: the run's).", panel=_WHAT)] = None,
    data_folder: Annotated[
        str | None, _option("--data-folder", text="Where its files are.", panel=_WHAT, metavar="DIR")
    ] = None,
    target_ratio: Annotated[
        float | None, _option(text="So many times smaller than the parameters in 4 bytes each.", panel=_GOAL)
    ] = None,
    max_loss: Annotated[
        float | None, _option(text="As small as this loss of accuracy allows, in points: 0.0.", panel=_GOAL)
    ] = None,
    policy: Annotated[
        Path | None, _option(text="As tightwire search decided, layer by layer.", panel=_GOAL, metavar="POLICY.JSON")
    ] = None,
    prune: Annotated[float | None, _option(text="Prune this share of the weights: 0.9.", panel=_GOAL)] = None,
    bits: Annotated[int, _option(text="2 to the power of this many shared values a layer.", panel=_GOAL)] = 4,
    bit_cost: Annotated[
        float, _option(text="What a bit weighs against exactness; 0 shares by squares alone.", panel=_GOAL)
    ] = 0.01,
    by: Annotated[
        str, _option(text="Densities: layer (equal), network (one threshold), adaptive.", panel=_HOW)
    ] = "adaptive",
    pattern: Annotated[str, _option(text="fine, vector:4, kernel, filter, block:4x4, 2:4.", panel=_HOW)] = "fine",
    schedule: Annotated[str, _option(text="cubic, one-shot, rounds:5.", panel=_HOW)] = "cubic",
    epochs: Annotated[float, _option(text="Of training while pruning.", panel=_HOW)] = 30.0,
    polish_epochs: Annotated[float, _option(text="Of training the shared values.", panel=_HOW)] = 5.0,
    lr: Annotated[float, _option(text="Learning rate of AdamW while pruning.", panel=_HOW)] = 2e-3,
    augment: Annotated[
        Literal["none", "shift", "crop-flip"],
        _option(text="Images while training: shift for digits, crop-flip for photographs.", panel=_HOW),
    ] = "none",
    seed: Annotated[int, _option(text="The same seed gives the same file on one machine.", panel=_HOW)] = 0,
    device: Annotated[Devices, _option(text="Where to compute.", panel=_HOW)] = Devices.cpu,
    work: Annotated[
        Path | None, _option(text="Where finished stages are kept (default: OUT.work).", panel=_KEEP, metavar="DIR")
    ] = None,
    overwrite: Annotated[bool, _option(text="Begin anew, whatever the work folder holds.", panel=_KEEP)] = False,
    json_to: Json = None,
) -> None:
    """Prune, share and code a trained network into one file that runs.

    Retrains while it prunes. What is done is kept in a work folder: called again after Ctrl-C, it goes on. Writes the
    file, and a report of every stage and layer beside it.
    """
    from tightwire.cli.show import console, write_json
    from tightwire.cli.shrink_show import Bars, tables
    from tightwire.engines.shrink import ShrinkConfig, Wish, shrink_to_file

    wish = Wish(
        prune=prune, bits=bits, bit_cost=bit_cost, by=by, pattern=pattern, schedule=schedule, ratio=target_ratio,
        max_loss=max_loss, epochs=epochs, polish_epochs=polish_epochs, lr=lr, seed=seed,
    )  # fmt: skip
    config = ShrinkConfig(
        source, out, wish.plan(), model=model, options=tuple(model_option or ()), data=data, data_folder=data_folder,
        device=str(device.value), augment=augment, policy=policy, work=work, overwrite=overwrite,
    )  # fmt: skip
    words = console(json_to)
    with Bars(words) as bars:
        result = shrink_to_file(config, told=bars)
    for table in tables(result):
        words.print(table)
    words.print(
        f"[bold]{out}[/]: {result['nbytes']:,} bytes, {result['ratio']:.1f} times smaller; report: {result['report']}"
    )
    write_json(result, json_to)
