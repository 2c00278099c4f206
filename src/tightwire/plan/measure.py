"""What a model costs on this device: forward, backward and update, layer by layer, and when each gradient is ready.

Totals come from runs without hooks. Hooks then say how a total is spread: a layer's forward pass lies between its two
forward hooks, its backward pass between the gradient of its output and that of the layer before it, and a parameter's
gradient is ready when autograd says so, exactly as `run.hooks` hears it. Weights and statistics are put back after it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from tightwire.algebra.tensors import canonical
from tightwire.plan.errors import PlanError
from tightwire.plan.profile import Layer, Profile, TensorShape
from tightwire.plan.stopwatch import Stopwatch

LossFn = Callable[[Tensor, Any], Tensor]
Found = TypeVar("Found")
_PAIRS = 3  # usual batch and larger one, one after the other
_PATIENCE_S = 0.4  # for one kind of run
_LARGER = 4  # times the batch: where a split model, which sees the batches of all workers, is measured as well


def profile_model(
    model: nn.Module,
    batch: tuple[Any, Any],
    loss_fn: LossFn,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    name: str = "model",
    repeats: int = 5,
) -> Profile:
    """Measure a model with one batch. ``loss_fn(model(x), y)`` is what is differentiated."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise PlanError(f"{name} has no parameter that learns; there is nothing to exchange")
    kept = deepcopy(model.state_dict()), None if optimizer is None else deepcopy(optimizer.state_dict())
    stepper = optimizer or torch.optim.SGD(parameters, lr=0.0, momentum=0.9)
    was_training = model.training
    model.train()
    try:
        return _profile(model, batch, loss_fn, stepper, name, repeats)
    finally:
        model.load_state_dict(kept[0])
        model.train(was_training)
        stepper.zero_grad(set_to_none=True)
        if optimizer is not None and kept[1] is not None:
            optimizer.load_state_dict(kept[1])


def _profile(
    model: nn.Module, batch: tuple[Any, Any], loss_fn: LossFn, stepper: torch.optim.Optimizer, name: str, repeats: int
) -> Profile:
    device = next(model.parameters()).device
    watch = Stopwatch(device)
    runs = several(lambda: _run(model, batch, loss_fn, stepper, watch), repeats, warm=2)
    forward_s, backward_s, update_s = (statistics.median(times) for times in zip(*runs, strict=True))
    seen = several(lambda: _watched(model, batch, loss_fn, stepper, watch), max(2, repeats // 2), warm=1)
    layers = _layers(model, seen, forward_s, backward_s, update_s)
    tensors = tuple(
        TensorShape(canonical(n), tuple(p.shape), _ready(seen, n, backward_s), str(p.dtype).removeprefix("torch."))
        for n, p in model.named_parameters()
        if p.requires_grad
    )
    more = _larger(model, batch, loss_fn, stepper, watch)
    return Profile(
        name, str(device), _samples(batch[0]), tensors, layers, forward_s, backward_s, update_s,
        sequential=isinstance(model, nn.Sequential),
        batches={samples: factor * (forward_s + backward_s) for samples, factor in more.items()},
    )  # fmt: skip


def several(once: Callable[[], Found], most: int, *, warm: int) -> list[Found]:
    """What ``most`` runs gave, after some that do not count; fewer, but one at least, of what takes long: there the
    first run differs little from the others.
    """
    began, found = time.perf_counter(), [once()]
    while len(found) < warm + most and (len(found) < 2 or time.perf_counter() - began < _PATIENCE_S):
        found.append(once())
    return found[min(warm, len(found) - 1) :]


def _run(
    model: nn.Module, batch: tuple[Any, Any], loss_fn: LossFn, stepper: torch.optim.Optimizer, watch: Stopwatch
) -> tuple[float, float, float]:
    start = watch.mark()
    loss = loss_fn(model(batch[0]), batch[1])
    forward = watch.mark()
    loss.backward()
    backward = watch.mark()
    stepper.step()
    stepper.zero_grad(set_to_none=True)
    end = watch.mark()
    return watch.seconds(start, forward), watch.seconds(forward, backward), watch.seconds(backward, end)


def _larger(
    model: nn.Module, batch: tuple[Any, Any], loss_fn: LossFn, stepper: torch.optim.Optimizer, watch: Stopwatch
) -> dict[int, float]:
    """By what factor a larger batch takes longer, for models that a split can cut.

    Each time right after the usual batch: a machine that is faster or slower than a moment ago is so for both.
    """
    x, y = batch
    if not (isinstance(model, nn.Sequential) and isinstance(x, Tensor) and isinstance(y, Tensor)):
        return {}
    larger = (torch.cat([x] * _LARGER), torch.cat([y] * _LARGER))

    def passes_s(of: tuple[Any, Any]) -> float:
        return sum(_run(model, of, loss_fn, stepper, watch)[:2])

    pairs = several(lambda: (passes_s(batch), passes_s(larger)), _PAIRS, warm=1)
    return {_LARGER * _samples(x): statistics.median(more / max(usual, 1e-12) for usual, more in pairs)}


def _samples(x: Any) -> int:
    return int(x.shape[0]) if isinstance(x, Tensor) and x.dim() else 1


@dataclass
class _Seen:
    """One watched run: marks by layer and by parameter."""

    watch: Stopwatch
    begins: dict[str, Any] = field(default_factory=dict)
    ends: dict[str, Any] = field(default_factory=dict)
    backs: dict[str, Any] = field(default_factory=dict)
    ready: dict[str, Any] = field(default_factory=dict)
    nbytes: dict[str, int] = field(default_factory=dict)
    turned: Any = None  # the backward pass begins
    over: Any = None


def _watched(
    model: nn.Module, batch: tuple[Any, Any], loss_fn: LossFn, stepper: torch.optim.Optimizer, watch: Stopwatch
) -> _Seen:
    """One run with hooks on every layer and parameter."""
    seen = _Seen(watch)
    with ExitStack() as stack:
        for name, module in _modules(model):
            stack.callback(module.register_forward_pre_hook(_before(seen, name)).remove)
            stack.callback(module.register_forward_hook(_after(seen, name)).remove)
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                stack.callback(parameter.register_post_accumulate_grad_hook(_gradient(seen, name)).remove)
        loss = loss_fn(model(batch[0]), batch[1])
        seen.turned = watch.mark()
        loss.backward()
        seen.over = watch.mark()
    stepper.zero_grad(set_to_none=True)
    return seen


def _modules(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """What counts as a layer: the children of a sequence, else whatever has no parts of its own."""
    if isinstance(model, nn.Sequential):
        return list(model.named_children())
    return [(name, module) for name, module in model.named_modules() if not list(module.children())]


def _before(seen: _Seen, name: str) -> Callable[..., None]:
    def hook(module: nn.Module, given: object) -> None:
        seen.begins.setdefault(name, seen.watch.mark())

    return hook


def _after(seen: _Seen, name: str) -> Callable[..., None]:
    def hook(module: nn.Module, given: object, result: object) -> None:
        seen.ends[name] = seen.watch.mark()
        tensors = [t for t in (result if isinstance(result, tuple | list) else (result,)) if isinstance(t, Tensor)]
        seen.nbytes[name] = sum(t.nbytes for t in tensors)
        for tensor in tensors[:1]:
            if tensor.requires_grad:
                tensor.register_hook(lambda gradient: _first(seen, name))

    return hook


def _first(seen: _Seen, name: str) -> None:
    seen.backs.setdefault(name, seen.watch.mark())


def _gradient(seen: _Seen, name: str) -> Callable[[Tensor], None]:
    def hook(parameter: Tensor) -> None:
        seen.ready[name] = seen.watch.mark()

    return hook


def _ready(seen: list[_Seen], name: str, backward_s: float) -> float:
    """When a gradient is there, on the scale of runs without hooks; what is never used comes last."""
    found = [
        run.watch.seconds(run.turned, run.ready[name]) / run.watch.seconds(run.turned, run.over)
        for run in seen
        if name in run.ready
    ]
    return backward_s * min(1.0, statistics.median(found)) if found else backward_s


def _layers(
    model: nn.Module, seen: list[_Seen], forward_s: float, backward_s: float, update_s: float
) -> tuple[Layer, ...]:
    """Layers in the order of their forward passes, with their shares of the totals."""
    modules = dict(_modules(model))
    order = [name for name in seen[0].begins if all(name in run.ends for run in seen)]
    forwards = {n: statistics.median(r.watch.seconds(r.begins[n], r.ends[n]) for r in seen) for n in order}
    backwards = {n: statistics.median(_back(run, order, n) for run in seen) for n in order}
    sizes = {n: sum(p.numel() for p in modules[n].parameters() if p.requires_grad) for n in order}
    total = max(1, sum(sizes.values()))
    part_f = min(1.0, forward_s / max(sum(forwards.values()), 1e-12))
    part_b = min(1.0, backward_s / max(sum(backwards.values()), 1e-12))
    return tuple(
        Layer(n, part_f * forwards[n], part_b * backwards[n], update_s * sizes[n] / total, sizes[n], seen[0].nbytes[n])
        for n in order
    )


def _back(run: _Seen, order: list[str], name: str) -> float:
    """From the gradient of a layer's output to that of the layer before it; the first one's ends with the pass."""
    if name not in run.backs:
        return 0.0
    before = [n for n in order[: order.index(name)] if n in run.backs]
    end = run.backs[before[-1]] if before else run.over
    return max(0.0, run.watch.seconds(run.backs[name], end))
