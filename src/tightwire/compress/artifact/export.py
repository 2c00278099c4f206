"""A compressed network for others: dense safetensors, or ONNX."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors.torch import save_file

from tightwire.compress.artifact.build import build
from tightwire.compress.artifact.values import Artifact
from tightwire.compress.errors import ArtifactError
from tightwire.files import writing


def to_safetensors(artifact: Artifact, path: Path | str) -> None:
    """Write every tensor, dense, under its name."""
    with writing(Path(path)) as partial:
        save_file({name: t.contiguous() for name, t in artifact.state_dict().items()}, partial)


def to_onnx(artifact: Artifact, path: Path | str, *, trust: bool = False) -> None:
    """Write the dense network as ONNX, for batches of any size. Needs the package ``onnx``."""
    if artifact.architecture is None:
        raise ArtifactError("the file names no network, so there is no graph to export; export safetensors instead")
    if find_spec("onnx") is None:
        raise ArtifactError("exporting ONNX needs the package onnx: pip install onnx")
    model, x = build(artifact, trust=trust), torch.zeros(1, *artifact.architecture.inputs)
    with writing(Path(path)) as partial, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(model, (x,), str(partial), input_names=["x"], output_names=["y"], dynamo=False,
                          dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})  # fmt: skip
