"""The options of a trained network that a command starts from: the same for `shrink` and `search`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

WHAT, KEEP = "Of what", "Surviving"


def option(*flags: str, text: str, panel: str, metavar: str | None = None) -> Any:
    """An option under a heading of the help."""
    return typer.Option(*flags, help=text, rich_help_panel=panel, metavar=metavar)


SourceArgument = Annotated[Path, typer.Argument(metavar="RUN|FILE", help="A run's folder, or a .safetensors file.")]
Model = Annotated[str | None, option(text="The network, for a file of weights.", panel=WHAT)]
ModelOptions = Annotated[
    list[str] | None,
    option("--model-option", text="An option of the network: norm=batch.", panel=WHAT, metavar="KEY=VALUE"),
]
DataFolder = Annotated[str | None, option("--data-folder", text="Where its files are.", panel=WHAT, metavar="DIR")]
Overwrite = Annotated[bool, option(text="Begin anew, whatever the work folder holds.", panel=KEEP)]
