"""The error of many versions of a network on samples that stay on the device.

A version is the network with some of its tensors replaced, and the statistics of its batch norms taken anew (`norms`).
On a GPU several small ones are measured in one pass, stacked (`torch.func.vmap`); larger ones fill the device by
themselves and go one after another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from tightwire.compress.retrain import Examples
from tightwire.compress.search.norms import Norms

Version: TypeAlias = Mapping[str, Tensor]
_BATCH = {"cpu": 250, "cuda": 5000}


@dataclass(frozen=True, eq=False)
class Measure:
    """The samples a search is decided by. ``together``: how many versions are measured in one pass.

    ``seen_N`` are other samples, from which batch norms take their statistics; without them they stay as they were.
    """

    model: nn.Module
    examples: Examples
    together: int = 1
    seen_N: Tensor | None = None  # noqa: N815

    def __post_init__(self) -> None:
        """Images with channels last, in which convolutions are more than twice as fast."""
        object.__setattr__(self, "examples", Examples(_channels_last(self.examples.x_N), self.examples.y_N))
        if self.seen_N is not None:
            object.__setattr__(self, "seen_N", _channels_last(self.seen_N))

    @torch.inference_mode()
    def calibrated(self, version: Version) -> dict[str, Tensor]:
        """The version with its own statistics of batch norms."""
        norms, seen_N = Norms(self.model.eval()), self.seen_N
        if not norms or seen_N is None:
            return dict(version)

        def run(statistics: dict[str, Tensor]) -> None:
            with self._cast():
                torch.func.functional_call(self.model, {**version, **statistics}, (seen_N,))

        return {**version, **norms.taken(run)}

    @torch.inference_mode()
    def errors(self, versions: Sequence[Version]) -> list[float]:
        """The share of wrong answers of each."""
        self.model.eval()
        wrong: list[Tensor] = []
        for first in range(0, len(versions), self.together):
            some = versions[first : first + self.together]
            wrong.append(self._one(some[0])[None] if len(some) == 1 else self._stacked(some))
        return [float(count) / len(self.examples) for count in torch.cat(wrong).tolist()] if wrong else []

    def _one(self, version: Version) -> Tensor:
        wrong = torch.zeros((), device=self.examples.y_N.device)
        weights = self.calibrated({name: _channels_last(tensor) for name, tensor in version.items()})
        with self._cast():
            for x_B, y_B in self._batches():
                answer = torch.func.functional_call(self.model, weights, (x_B,))
                wrong += (answer.argmax(-1) != y_B).sum()
        return wrong

    def _stacked(self, versions: Sequence[Version]) -> Tensor:
        names = list(dict.fromkeys(name for version in versions for name in version))
        own = dict(self.model.state_dict())
        stacked = {name: torch.stack([version.get(name, own[name]) for version in versions]) for name in names}
        wrong = torch.zeros(len(versions), device=self.examples.y_N.device)

        def answer(weights: dict[str, Tensor], x_B: Tensor) -> Tensor:
            found: Tensor = torch.func.functional_call(self.model, weights, (x_B,))
            return found

        together = torch.func.vmap(answer, in_dims=(0, None))
        norms, seen_N = Norms(self.model), self.seen_N
        if norms and seen_N is not None:
            seen = seen_N.contiguous()
            stacked |= norms.taken(lambda made: together({**stacked, **made}, seen), versions=(len(versions),))
        for x_B, y_B in self._batches():  # in full precision: autocast beneath vmap does not reach every tensor
            answer_VB = together(stacked, x_B.contiguous())
            wrong += (answer_VB.argmax(-1) != y_B).sum(-1)
        return wrong

    def _batches(self) -> zip[tuple[Tensor, Tensor]]:
        size = _BATCH.get(self.examples.y_N.device.type, 250)
        return zip(self.examples.x_N.split(size), self.examples.y_N.split(size), strict=True)

    def _cast(self) -> AbstractContextManager[object]:
        """Half precision on a GPU: what is compared is right or wrong."""
        return torch.autocast("cuda", torch.bfloat16) if self.examples.y_N.is_cuda else nullcontext()


def _channels_last(tensor: Tensor) -> Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor
