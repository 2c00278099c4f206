"""What a configuration names, made: data, network, optimizer, loader, loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from tightwire import data as workloads
from tightwire import models
from tightwire.algebra.world import At, World
from tightwire.data import Data, OwnShards, shards
from tightwire.data.rows import Rows, Samples
from tightwire.engines.config import ConfigError, RunConfig
from tightwire.engines.rate import lr_of, start_of

_NEAR_NBYTES = 1 << 30  # a training set that a GPU holds beside the network


def make_workload(config: RunConfig) -> tuple[Data, nn.Module]:
    """Data and a network that fits it, with the weights that the seed gives."""
    options: dict[str, Any] = {}
    if config.data == "digits" and ":" not in config.model and models.describe(config.model).wants == "images":
        options["shape"] = "image"
    if config.data == "text":
        options["columns"] = config.workers * config.batch
    if config.data == "cifar10":
        options["augment"] = config.augment or "crop-flip"
    elif config.augment not in (None, "none"):
        raise ConfigError(f"augment={config.augment} is for photographs (cifar10), not for {config.data}; leave it out")
    data = workloads.load(config.data, config.data_folder, **options)
    torch.manual_seed(config.seed)
    model = models.make(config.model, inputs=data.inputs, classes=data.classes)
    return _near(data, config.device), model.to(config.device)


def _near(data: Data, device: str) -> Data:
    """A small training set lies where the network does."""
    train = data.train
    if device == "cpu" or not isinstance(train, Samples) or train.x.nbytes > _NEAR_NBYTES:
        return data
    return replace(data, train=train.on(device))


def draw_apart(config: RunConfig, rank: int) -> None:
    """From here on workers drop units out and shift images each in its own way; their first weights were the same."""
    at = At(seed=config.seed, world=World(rank, max(config.workers, rank + 1)))
    torch.manual_seed(at.key(shared=False, salt="draws"))


def cuttable(config: RunConfig, model: nn.Module, data: Data, *, stages: int) -> nn.Module:
    """The model as a split can cut it: a chain of pieces with the same weights, if it is no nn.Sequential."""
    if stages == 1 or isinstance(model, nn.Sequential) or not isinstance(data.train, Rows):
        return model
    from tightwire.splits.export import as_sequential  # noqa: PLC0415 -- loads much of torch

    x, _ = data.train.batch(torch.arange(2))
    return as_sequential(model, x.to(config.device))


def make_optimizer(config: RunConfig, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer; what is not given is what the recipe starts with."""
    lr = lr_of(config)
    if config.optimizer == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=config.weight_decay)
    momentum = start_of(config).momentum if config.momentum is None else config.momentum
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum, weight_decay=config.weight_decay)


def make_loader(config: RunConfig, data: Data, *, workers: int, split: bool) -> DataLoader[Any]:
    """A loader for `wire.shard`. A split model sees the batches of all workers, one after another."""
    batch = config.batch * (workers if split else 1)
    if data.task == "language":
        return DataLoader(data.train, batch_size=batch, collate_fn=workloads.collate, drop_last=True)
    if config.shards == "sorted" and not split:
        sampler = OwnShards(shards(data.train, workers, "sorted"), batch)
        return DataLoader(data.train, batch_size=batch, sampler=sampler, collate_fn=workloads.collate)
    return DataLoader(data.train, batch_size=batch, shuffle=True, collate_fn=workloads.collate)


def criterion(data: Data) -> Callable[[Tensor, Tensor], Tensor]:
    """Cross-entropy of classes, or of next words."""
    return _next_word if data.task == "language" else F.cross_entropy


def _next_word(logits_BTW: Tensor, target_BT: Tensor) -> Tensor:
    return F.cross_entropy(logits_BTW.flatten(0, 1), target_BT.flatten())
