"""Several workers' encodings in one room: what one asks is answered from what all ask."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from tightwire.algebra.codec import Ask

R = TypeVar("R")


@dataclass(frozen=True)
class Met(Generic[R]):
    """Each worker's result, and how many bytes each asked with."""

    results: list[R]
    asked_nbytes: list[int]


def meet(asking: Sequence[Generator[Ask, Tensor, R]]) -> Met[R]:
    """Run generators in lockstep, answering their questions across all of them."""
    results: list[R | None] = [None] * len(asking)
    nbytes = [0] * len(asking)
    replies: list[Tensor | None] = [None] * len(asking)
    while True:
        asks: list[Ask] = []
        for k, generator in enumerate(asking):
            try:
                reply = replies[k]
                asks.append(next(generator) if reply is None else generator.send(reply))
            except StopIteration as stop:
                results[k] = stop.value
        if not asks:
            return Met([r for r in results if r is not None], nbytes)
        assert len(asks) == len(asking), "some workers ask while others have ended: they would wait for ever"
        assert len({ask.kind for ask in asks}) == 1, f"workers ask different things: {[ask.kind for ask in asks]}"
        nbytes = [n + ask.tensor.nbytes for n, ask in zip(nbytes, asks, strict=True)]
        replies = [answer(asks) for _ in asking]


def answer(asks: Sequence[Ask]) -> Tensor:
    """The reply everybody gets."""
    stacked = torch.stack([ask.tensor for ask in asks])
    match asks[0].kind:
        case "sum":
            return stacked.sum(0)
        case "mean":
            return stacked.mean(0)
        case "max":
            return stacked.amax(0)
        case "gather":
            return stacked
