"""What `tightwire shrink` starts from: the network of a run, or a safetensors file; and data.

runs/x                          a run: its configuration names model and data
model.safetensors --model NAME  a network of the catalogue, for the data given, or for the inputs of its paper
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from tightwire import data as workloads
from tightwire import models
from tightwire.compress.pipeline import Sets
from tightwire.compress.retrain import Examples
from tightwire.data import Data, collate
from tightwire.data.augment import AUGMENTS, AugmentName
from tightwire.data.rows import Samples
from tightwire.engines.config import ConfigError, RunConfig

_DECIDED = 12  # every so-manieth training sample decides, where something is to be decided


@dataclass(frozen=True, eq=False)
class Source:
    """A trained network: what it is, and its data if there is any."""

    model: nn.Module
    name: str
    inputs: tuple[int, ...]
    classes: int
    options: dict[str, Any]
    data: Data | None
    digest: str


def find_source(
    source: Path, *, model: str | None, options: dict[str, Any], data: str | None, data_folder: str | None
) -> Source:
    """Read the network, and the data if it is named; what a run's configuration says is what is not given."""
    if source.is_dir():
        config = RunConfig.load(source)
        model, data = model or config.model, data or config.data
        data_folder = data_folder or config.data_folder
        weights = source / "model.safetensors"
        if not weights.exists():
            raise ConfigError(
                f"{source} has no model.safetensors: its training has not ended; tightwire resume {source}"
            )
    elif source.exists():
        weights = source
    else:
        raise ConfigError(f"there is no {source}; name the folder of a run, or a file of weights (.safetensors)")
    if model is None:
        raise ConfigError(f"{source} holds weights only; say of which network with --model")
    read = _data(data, data_folder, model) if data is not None else None
    inputs, classes = (read.inputs, read.classes) if read is not None else _shapes(model)
    made = models.make(model, inputs=inputs, classes=classes, **options)
    _fill(made, weights, model)
    return Source(made, model, inputs, classes, options, read, sha256(weights.read_bytes()).hexdigest())


def _data(name: str, folder: str | None, model: str) -> Data:
    options: dict[str, Any] = {}
    if name == "digits" and ":" not in model and models.describe(model).wants == "images":
        options["shape"] = "image"
    data = workloads.load(name, folder, **options)
    if data.task != "classify":
        raise ConfigError(f"{name} is text, and shrink retrains classifiers; leave out --data to only share and code")
    return data


def _shapes(model: str) -> tuple[tuple[int, ...], int]:
    if ":" in model:
        raise ConfigError(f"{model} is your own: give --data, so that its inputs and classes are known")
    entry = models.describe(model)
    return entry.inputs, entry.classes


def _fill(model: nn.Module, weights: Path, name: str) -> None:
    try:
        model.load_state_dict(load_file(weights))
    except (OSError, SafetensorError) as error:
        raise ConfigError(
            f"{weights} cannot be read as safetensors ({error}); name a run or a .safetensors file"
        ) from None
    except RuntimeError:
        raise ConfigError(
            f"{weights} does not fit {name}: {_misfit(model, load_file(weights))}; name its network with --model, and "
            "what it was made with by --model-option"
        ) from None
    for key, tensor in model.state_dict().items():
        if not bool(tensor.isfinite().all()):
            raise ConfigError(
                f"{weights} holds no trained network: {key} is not finite; train it again with a lower --lr"
            )


def _misfit(model: nn.Module, found: dict[str, Tensor]) -> str:
    """What is missing, unknown, or of another shape: how many tensors, and the first of them."""
    own = model.state_dict()
    kinds = {
        "missing": [name for name in own if name not in found],
        "unknown": [name for name in found if name not in own],
        "of another shape": [name for name in own if name in found and own[name].shape != found[name].shape],
    }
    return ", ".join(f"{len(names)} of its tensors are {kind} ({names[0]})" for kind, names in kinds.items() if names)


def make_sets(data: Data, *, device: str, decide: bool, augment: AugmentName = "none") -> Sets:
    """Everything on the device; with ``decide``, a part of the training set is kept apart to decide by."""
    train, test = (Examples(*_whole(part, device)) for part in (data.train, data.test))
    rest, valid = train.cut(_DECIDED) if decide else (train, None)
    return Sets(Examples(rest.x_N, rest.y_N, AUGMENTS[augment]), valid, test)


def _whole(samples: Dataset[tuple[Tensor, Tensor]], device: str) -> tuple[Tensor, Tensor]:
    """All samples of a data set as two tensors."""
    if isinstance(samples, Samples):
        x_N, y_N = samples.batch(torch.arange(len(samples)))
    else:
        batches = list(DataLoader(samples, batch_size=1000, collate_fn=collate))
        x_N, y_N = (torch.cat([batch[part] for batch in batches]) for part in (0, 1))
    return x_N.to(device), y_N.to(device)
