"""The file of a shrunk network: its size before it is written, writing it, and running from it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from torch import nn

from tightwire.compress.artifact import Architecture, Artifact, Tensor, save
from tightwire.compress.artifact import read as read_artifact
from tightwire.compress.artifact import write as write_artifact
from tightwire.compress.artifact.build import build as build_dense
from tightwire.compress.artifact.numbers import pack_codebook
from tightwire.compress.code import encode
from tightwire.compress.halves import round_rest_, round_shared
from tightwire.compress.pipeline import Shrunk
from tightwire.compress.run.build import build as build_compressed
from tightwire.compress.shared_weights import SharedWeights
from tightwire.engines.shrink_source import Source


@dataclass(frozen=True, eq=False)
class Coded:
    """Sizes by the coders themselves, of what will be written: everything rounded to halves."""

    architecture: Architecture | None = None
    known: dict[bytes, int] = field(default_factory=dict)  # codes that have not changed are not coded again

    def layer(self, shared: SharedWeights) -> int:
        """The bytes of codes and centroids."""
        key = sha256(shared.code_N.tobytes() + repr(shared.shape).encode()).digest()
        centroids = len(shared.codebook_K)
        if key not in self.known:
            self.known[key] = len(encode(shared.code_N, shape=shared.shape, centroids=centroids).payload)
        return self.known[key] + (len(pack_codebook(round_shared(shared).codebook_K).payload) if centroids else 0)

    def whole(self, model: nn.Module, shared: Mapping[str, SharedWeights]) -> int:
        """The bytes of the file."""
        twin = deepcopy(model)
        round_rest_(twin, shared)
        rounded = {name: round_shared(tensor) for name, tensor in shared.items()}
        return len(write_artifact(Artifact(tensors_of(twin, rounded), self.architecture)))


def architecture_of(source: Source) -> Architecture:
    """What a file says of its network."""
    return Architecture(source.name, source.inputs, source.classes, source.options)


def tensors_of(model: nn.Module, shared: Mapping[str, SharedWeights]) -> dict[str, Tensor]:
    """Every tensor of the state dict, shared or plain."""
    found: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        if name in shared:
            found[name] = shared[name]
        else:
            plain = tensor.detach().cpu()
            found[name] = plain.float().numpy() if plain.is_floating_point() else plain.numpy().astype(np.int64)
    return found


def write(out: Path, source: Source, shrunk: Shrunk) -> int:
    """Write the file; its bytes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    return save(Artifact(tensors_of(shrunk.model, shrunk.shared), architecture_of(source)), out)


def read(path: Path, inputs: tuple[int, ...]) -> nn.Module:
    """The network, running from the file."""
    artifact = read_artifact(path)
    shared = {name: tensor for name, tensor in artifact.tensors.items() if isinstance(tensor, SharedWeights)}
    return build_compressed(build_dense(artifact, trust=True), shared, example=torch.zeros(1, *inputs)).eval()
