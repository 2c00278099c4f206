"""`build`: the network of a file, as an ordinary dense `nn.Module`.

A file may name a function of one's own (``module:function``). Importing a module runs its code, so that is done only
when the caller trusts the file. Networks whose filters were removed are made as the catalogue has them, then cut to the
shapes in the file.
"""

from __future__ import annotations

import torch
from torch import nn

from tightwire.compress.artifact.values import Architecture, Artifact
from tightwire.compress.errors import ArtifactError
from tightwire.models import ModelError, make


def build(artifact: Artifact, *, trust: bool = False) -> nn.Module:
    """A dense network with the file's weights. ``trust``: also import and call a function that the file names."""
    if artifact.architecture is None:
        raise ArtifactError("the file names no network; load its tensors with artifact.state_dict()")
    state = artifact.state_dict()
    model = bare(artifact.architecture, {name: tuple(t.shape) for name, t in state.items()}, trust=trust)
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise ArtifactError(f"the tensors do not fit {artifact.architecture.name}: {error}") from error
    return model.eval()


def bare(architecture: Architecture, shapes: dict[str, tuple[int, ...]], *, trust: bool = False) -> nn.Module:
    """The network without its weights, each layer cut to the shape of its tensors."""
    if architecture.own and not trust:
        raise ArtifactError(
            f"the file asks to run {architecture.name}, which is code of somebody; pass trust=True if you know whose"
        )
    try:
        model = make(
            architecture.name, inputs=architecture.inputs, classes=architecture.classes, **architecture.options
        )
    except (ModelError, TypeError, ValueError, RuntimeError) as error:
        raise ArtifactError(f"the network {architecture.name!r} cannot be made: {error}") from error
    _cut(model, shapes)
    return model


def _cut(model: nn.Module, shapes: dict[str, tuple[int, ...]]) -> None:
    """Give every layer the shape that its tensors have."""
    for path, layer in model.named_modules():
        wanted = shapes.get(f"{path}.weight" if path else "weight")
        weight = getattr(layer, "weight", None)
        if wanted is None or not isinstance(weight, torch.Tensor) or tuple(weight.shape) == wanted:
            continue
        if isinstance(layer, nn.Linear) and len(wanted) == 2:
            layer.out_features, layer.in_features = wanted
        elif isinstance(layer, nn.Conv2d) and len(wanted) == 4:
            depthwise = layer.groups == layer.in_channels > 1 and wanted[1] == 1
            layer.groups = wanted[0] if depthwise else layer.groups
            layer.out_channels, layer.in_channels = wanted[0], wanted[1] * layer.groups
        elif isinstance(layer, nn.BatchNorm2d | nn.BatchNorm1d) and len(wanted) == 1:
            layer.num_features = wanted[0]
            layer.running_mean, layer.running_var = torch.zeros(wanted), torch.ones(wanted)
        else:
            raise ArtifactError(f"{path}.weight of shape {wanted} does not fit {type(layer).__name__}")
        layer.weight = nn.Parameter(torch.zeros(wanted))
        if getattr(layer, "bias", None) is not None:
            layer.bias = nn.Parameter(torch.zeros(wanted[0]))
