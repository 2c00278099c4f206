"""How good the answer is: test accuracy, or perplexity of next words."""

from __future__ import annotations

from itertools import islice
from math import exp
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

from tightwire.data import Data, collate
from tightwire.engines.workload import criterion
from tightwire.run.wire import Wire

_BATCH = 256
_CALIBRATION_BATCHES = 20


@torch.no_grad()
def score(wire: Wire, data: Data, device: str) -> dict[str, float]:
    """Evaluate the answer; every worker takes its part of the test set, and all get the same figure."""
    with wire.answer() as model:
        _recalibrate(wire, data, device)
        was_training = model.training
        model.eval()
        try:
            if data.task == "language":
                return {"perplexity": exp(_loss(model, data, device))}
            right, seen = _count(model, data.test, device, wire.rank, wire.size)
        finally:
            model.train(was_training)
        counts = torch.tensor([right, seen], dtype=torch.float64)
        wire.add_up_(counts)
        return {"test_accuracy": float(counts[0] / counts[1])}


def _count(model: nn.Module, test: Dataset[Any], device: str, rank: int, size: int) -> tuple[int, int]:
    mine = Subset(test, range(rank, len(test), size))  # type: ignore[arg-type]
    right = seen = 0
    for x, y in DataLoader(mine, batch_size=_BATCH, collate_fn=collate):
        right += int((model(x.to(device)).argmax(-1) == y.to(device)).sum())
        seen += len(y)
    return right, seen


def _loss(model: nn.Module, data: Data, device: str) -> float:
    """The mean loss over the test text, read in order."""
    total = tokens = 0.0
    loss = criterion(data)
    for x, y in DataLoader(data.test, batch_size=data.columns, collate_fn=collate):
        total += float(loss(model(x.to(device)), y.to(device))) * y.numel()
        tokens += y.numel()
    return total / tokens


def _recalibrate(wire: Wire, data: Data, device: str) -> None:
    """Averaged weights do not fit averaged batch-norm statistics: a few batches set them right."""
    if not any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in wire.model.modules()):
        return
    part = Subset(data.train, range(wire.rank, len(data.train), wire.size))  # type: ignore[arg-type]
    loader = DataLoader(part, batch_size=_BATCH, shuffle=True, collate_fn=collate)
    wire.recalibrate(x.to(device) for x, _ in islice(loader, _CALIBRATION_BATCHES))
