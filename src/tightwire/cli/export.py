"""`tightwire export`: a compressed network for others, dense."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(export)


def export(
    file: Annotated[Path, typer.Argument(metavar="MODEL.twz", help="A compressed network.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A .safetensors or an .onnx file.")],
    trust: Annotated[
        bool, typer.Option("--trust", help="The file may name a network of somebody's own code, which ONNX runs.")
    ] = False,
) -> None:
    """Write a compressed network densely: every tensor (.safetensors), or the whole network (.onnx)."""
    from safetensors import SafetensorError

    from tightwire.cli.show import console, human_bytes
    from tightwire.compress.artifact import read
    from tightwire.compress.artifact.export import to_onnx, to_safetensors
    from tightwire.compress.errors import ArtifactError

    if out.suffix not in (".safetensors", ".onnx"):
        raise ArtifactError(f"{out} is neither .safetensors nor .onnx; name one of them")
    artifact = read(file)
    try:
        if out.suffix == ".onnx":
            to_onnx(artifact, out, trust=trust)
        else:
            to_safetensors(artifact, out)
    except (OSError, SafetensorError) as error:
        raise ArtifactError(f"{out} cannot be written ({error}); name another file") from None
    console(None).print(f"[bold]{out}[/]: {human_bytes(out.stat().st_size)}")
