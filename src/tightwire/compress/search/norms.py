"""Batch norms of a pruned network: their statistics are taken anew, since those of the whole network do not fit it.

    one pass over training samples, norms by the batch     →     mean and variance of every norm
    then any other samples, norms by these

Without this, a policy is judged by how far its statistics moved, which the first steps of fine-tuning mend, and not by
what it lost. Li, Wu, Su, Wang: EagleEye: Fast Sub-net Evaluation for Efficient Neural Network Pruning. ECCV 2020,
arXiv 2007.02491, find the accuracy after fine-tuning told far better so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


class Norms:
    """The batch norms of a model that keep statistics."""

    def __init__(self, model: nn.Module) -> None:
        self._found = {
            name: module
            for name, module in model.named_modules()
            if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.track_running_stats
        }

    def __bool__(self) -> bool:
        return bool(self._found)

    def taken(self, run: Callable[[dict[str, Tensor]], object], *, versions: Sequence[int] = ()) -> dict[str, Tensor]:
        """Statistics that ``run`` fills: it passes samples through the model with these in place of its own.

        ``versions`` is the shape of what is stacked before them.
        """
        made = {
            f"{name}.{key}": torch.zeros((*versions, *own.shape), dtype=own.dtype, device=own.device)
            for name, module in self._found.items()
            for key in _STATISTICS
            if isinstance(own := getattr(module, key), Tensor)
        }
        with self._by_the_batch():
            run(made)
        return made

    @contextmanager
    def _by_the_batch(self) -> Iterator[None]:
        """Norms divide by the batch at hand, and remember that one alone."""
        before = {name: (module.training, module.momentum) for name, module in self._found.items()}
        for module in self._found.values():
            module.training, module.momentum = True, 1.0
        try:
            yield
        finally:
            for name, module in self._found.items():
                module.training, module.momentum = before[name]
