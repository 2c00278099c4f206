"""A network's passes on a GPU, launched as two recordings (CUDA graphs) instead of some hundred kernels.

    the first batches    as they stand
    then                 forward and backward are recorded, once
    from there on        batch → its place;  replay;  the loss;  replay;  gradients

A small network's kernels take less time than their launches. All gradients come at once when the backward pass ends, so
this is for workers that share a process: they take turns, and nothing travels while gradients are computed. It is for
our own networks, whose passes depend on nothing but weights, buffers and the batch; a batch of another size goes as it
stands, and so does everything if recording fails, with a notice.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import set_warn_on_accumulate_grad_stream_mismatch as _warn_of_streams
from torch.func import functional_call

_BEFORE = 3  # batches as they stand
_DEVICES = ("cuda",)


@contextmanager
def recorded(model: nn.Module) -> Iterator[nn.Module]:
    """Inside, passes of ``model`` in training are replayed where they can be."""
    passes = Passes(model)
    model.forward = passes
    try:
        yield model
    finally:
        del model.forward


class Passes:
    """What a model calls instead of its forward pass."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._plain: Callable[[Tensor], Tensor] = model.forward
        self._replay: Callable[..., Tensor] | None = None
        self._seen = 0
        self._batch: tuple[Any, ...] = ()
        self._refused = False

    @property
    def replayed(self) -> bool:
        """Whether passes are replayed by now."""
        return self._replay is not None

    def __call__(self, x: Tensor) -> Tensor:
        """The forward pass."""
        if self._refused or not self._model.training or not torch.is_grad_enabled() or x.device.type not in _DEVICES:
            return self._plain(x)
        if self._replay is None:
            self._seen += 1
            if self._seen <= _BEFORE or not self._record(x):
                return self._plain(x)
        assert self._replay is not None
        return self._replay(x, *self._model.parameters()) if self._batch == _kind(x) else self._plain(x)

    def _record(self, x: Tensor) -> bool:
        """Record; weights and buffers stay as they are.

        What is recorded reads the weights under other names: autograd has tied the weights' own gradients to the stream
        that their hooks were set on, and a recording is made on another. Weights that lie elsewhere later are copied
        into those of the recording, so it follows them.
        """
        if any(_hooked(layer) for layer in self._model.modules()):  # a replay calls nobody
            self._refused = True
            return False
        named = dict(self._model.named_parameters())
        aliases = tuple(weight.detach().requires_grad_(weight.requires_grad) for weight in named.values())

        def forward(x: Tensor, *weights: Tensor) -> Any:
            self._model.forward = self._plain
            try:
                return functional_call(self._model, dict(zip(named, weights, strict=True)), (x,))
            finally:
                self._model.forward = self

        try:
            with _leaving_no_trace(self._model):
                replay: Any = torch.cuda.make_graphed_callables(forward, (x.clone(), *aliases), allow_unused_input=True)
                self._replay, self._batch = replay, _kind(x)
        except RuntimeError as error:
            self._refused = True
            first = str(error).strip().splitlines()[0]
            warnings.warn(
                f"the network's passes cannot be recorded ({first}), so their kernels are launched one by one, which "
                "is slower",
                stacklevel=2,
            )
        return not self._refused


@contextmanager
def _leaving_no_trace(model: nn.Module) -> Iterator[None]:
    """Passes inside change neither buffers nor the random numbers that follow."""
    buffers = [buffer.clone() for buffer in model.buffers()]
    random = torch.get_rng_state(), torch.cuda.get_rng_state_all()
    _warn_of_streams(False)  # torch records beside the stream that it has tried on, and would warn of it
    try:
        yield
    finally:
        _warn_of_streams(True)
        for buffer, before in zip(model.buffers(), buffers, strict=True):
            buffer.copy_(before)
        torch.set_rng_state(random[0])
        torch.cuda.set_rng_state_all(random[1])


def _hooked(layer: nn.Module) -> bool:
    """Whether somebody listens to a layer, as recipes do that send factors."""
    return bool(layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks)


def _kind(x: Tensor) -> tuple[Any, ...]:
    return x.shape, x.dtype, x.device, x.requires_grad
