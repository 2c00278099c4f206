"""`load`: a network that runs from a `.twz` file. A layer that does not want its weights dense never sees them so."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from tightwire.compress.artifact import Architecture, read
from tightwire.compress.artifact.build import bare
from tightwire.compress.errors import ArtifactError
from tightwire.compress.run.build import build
from tightwire.compress.run.form import FormName
from tightwire.compress.run.remember import Remembered, default_path
from tightwire.compress.shared_weights import SharedWeights
from tightwire.models import describe


def load(
    path: Path | str,
    *,
    batch: int = 1,
    form: FormName | None = None,
    device: str | torch.device = "cpu",
    trust: bool = False,
) -> nn.Module:
    """The network in the file, for inference, each layer in the form that is fastest for batches of this size.

    What was measured is kept in the user's cache folder; ``form`` measures nothing and takes that one everywhere.
    ``trust``: also call a function of one's own that the file names. `choices` says which form each layer has.
    """
    artifact = read(path)
    if artifact.architecture is None:
        raise ArtifactError("the file names no network; read its tensors with compress.artifact.read")
    shared = {name: t for name, t in artifact.tensors.items() if isinstance(t, SharedWeights)}
    plain = {
        name: torch.from_numpy(t.copy()) for name, t in artifact.tensors.items() if not isinstance(t, SharedWeights)
    }
    shapes = {name: tuple(tensor.shape) for name, tensor in artifact.tensors.items()}
    model = bare(artifact.architecture, shapes, trust=trust)
    try:
        found = model.load_state_dict(plain, strict=False)
    except RuntimeError as error:
        raise ArtifactError(f"the tensors do not fit {artifact.architecture.name}: {error}") from error
    lost = [*found.unexpected_keys, *(name for name in found.missing_keys if name not in shared)]
    if lost:
        raise ArtifactError(f"{', '.join(lost[:3])} and {artifact.architecture.name} do not belong together")
    remembered = Remembered(None if form else default_path())
    example = None if form else _example(artifact.architecture, batch)
    return build(model, shared, example=example, form=form, device=device, remembered=remembered)


def _example(architecture: Architecture, batch: int) -> Tensor | None:
    """An input of the size that the network is for; None where its inputs are no numbers, or are not known."""
    if architecture.own or describe(architecture.name).wants == "tokens":
        return None
    return torch.zeros(batch, *architecture.inputs)
