"""How good the answer is: test accuracy, or perplexity of next words."""

from __future__ import annotations

from itertools import islice
from math import exp, log
from sys import float_info
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

from tightwire.data import Data, collate
from tightwire.engines.workload import criterion
from tightwire.run.wire import Wire

_BATCH = 256
_CALIBRATION_BATCHES = 20
_MOST = log(float_info.max)  # the loss of which a perplexity can still be written down


@torch.no_grad()
def score(wire: Wire, data: Data, device: str) -> dict[str, float | None]:
    """Evaluate the answer; every worker takes its part of the test set, and all get the same figure.

    ``diverged`` stands beside it where the answer is none: weights that are not finite, or a loss beyond all numbers.
    """
    with wire.answer() as model:
        _recalibrate(wire, data, device)
        was_training = model.training
        model.eval()
        try:
            figure = _perplexity(model, data, device) if data.task == "language" else _accuracy(wire, data, device)
        finally:
            model.train(was_training)
        lost = None in figure.values() or not are_finite(model)
        return figure | ({"diverged": True} if wire.agree(lost) else {})


def are_finite(model: nn.Module) -> bool:
    """Whether all weights are numbers."""
    return all(bool(tensor.isfinite().all()) for tensor in model.parameters())


def _perplexity(model: nn.Module, data: Data, device: str) -> dict[str, float | None]:
    loss = _loss(model, data, device)
    return {"perplexity": exp(loss) if loss < _MOST else None}  # NaN is not less


def _accuracy(wire: Wire, data: Data, device: str) -> dict[str, float | None]:
    counts = torch.tensor(_count(wire.model, data.test, device, wire.rank, wire.size), dtype=torch.float64)
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
