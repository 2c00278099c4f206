"""A network and one batch to time it with: what a plan needs to know of a workload.

    --data given           its inputs and classes, and its first samples
    a network of ours      random numbers of the shape that its paper had
    module:function        what ``example()`` of that module returns, (x, y) or x; else inputs that its first layer
                           takes: tokens for an embedding, images for a convolution, numbers for a linear layer

What the numbers are does not matter for the time of a step, only their shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tightwire import data as workloads
from tightwire import models
from tightwire.engines.config import RunConfig
from tightwire.engines.memory import check_fits
from tightwire.engines.workload import make_workload
from tightwire.models.errors import ModelError
from tightwire.plan.errors import PlanError

_SIDE, _LENGTH = 32, 64  # pixels and tokens, where nothing says how many
_CLASSES = 10
Loss = Callable[[Any, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Example:
    """A network, one batch, and the samples of an epoch if they are known."""

    model: nn.Module
    x: Tensor
    y: Tensor
    samples: int | None = None


def find_example(name: str, *, batch: int, data: str | None, data_folder: str | None, device: str) -> Example:
    """The network with a batch, on the device."""
    torch.manual_seed(0)
    if data is not None:
        found = _from_data(name, batch, data, data_folder)
    elif ":" not in name:
        entry = models.describe(name)
        found = _of_shape(_make(name, entry.inputs, entry.classes), entry.inputs, entry.classes, entry.wants, batch)
    else:
        found = _yours(name, batch)
    return Example(found.model.to(device), found.x.to(device), found.y.to(device), found.samples)


def loss(output: Any, y: Tensor) -> Tensor:
    """Cross-entropy where labels fit the output, else the mean square of whatever comes out: as long to compute."""
    out = _tensor(output)
    if y.numel() and not y.is_floating_point() and out.shape[:-1] == y.shape and int(y.max()) < out.shape[-1]:
        return F.cross_entropy(out.flatten(0, -2), y.flatten())
    return out.float().square().mean()


def _from_data(name: str, batch: int, data: str, folder: str | None) -> Example:
    config = RunConfig(model=name, data=data, data_folder=folder, batch=batch, workers=1)
    read, model = make_workload(config)
    size = len(read.train)  # type: ignore[arg-type]
    loader = torch.utils.data.DataLoader(read.train, batch_size=batch, collate_fn=workloads.collate)
    x, y = next(iter(loader))
    if len(x) < batch:
        raise PlanError(f"batch={batch}: {data} has {size} samples; give a smaller --batch")
    return Example(model, x, y, size)


def _make(name: str, inputs: tuple[int, ...], classes: int) -> nn.Module:
    """The network, after a look at its size: on torch's meta device nothing is stored."""
    try:
        with torch.device("meta"):
            hollow = models.make(name, inputs=inputs, classes=classes)
    except (NotImplementedError, RuntimeError):
        pass  # some networks look at numbers while they are made
    else:
        check_fits(hollow, name)
    return models.make(name, inputs=inputs, classes=classes)


def _of_shape(model: nn.Module, inputs: tuple[int, ...], classes: int, wants: str, batch: int) -> Example:
    if wants == "tokens":
        tokens = torch.randint(classes, (batch, *inputs))
        return Example(model, tokens, tokens)
    return Example(model, torch.randn(batch, *inputs), torch.randint(classes, (batch,)))


def _yours(name: str, batch: int) -> Example:
    module = name.partition(":")[0]
    try:
        given = getattr(import_module(module), "example", None)
    except (ImportError, ValueError, TypeError):
        given = None  # the maker says it better
    if callable(given):
        made = given(**({"batch": batch} if "batch" in signature(given).parameters else {}))
        x, y = made if isinstance(made, tuple) else (made, torch.empty(0))
        if not isinstance(x, Tensor) or not isinstance(y, Tensor):
            raise PlanError(f"{module}.example() returned {type(x).__name__}; it must return a tensor, or (x, y)")
        classes = 1 + int(y.max()) if y.numel() and not y.is_floating_point() else _CLASSES
        return Example(_call(name, tuple(x.shape[1:]), classes), x, y)
    tried = []
    for inputs in ((_LENGTH,), (3, _SIDE, _SIDE)):
        try:
            model = _call(name, inputs, _CLASSES)
        except (ModelError, PlanError):
            raise
        except Exception as error:  # the user's own code: whatever it says is passed on
            tried.append(f"{type(error).__name__}: {error}")
            continue
        for x in _guesses(model, inputs, batch):
            problem = _runs(model, x)
            if problem is None:
                return Example(model, x, torch.empty(0))
            tried.append(problem)
    raise PlanError(
        f"{name} took none of the inputs it was tried with (last: {tried[-1].splitlines()[0][:120]}); give --data, or "
        f"write a function example() in {module} that returns a batch (x, y)"
    )


def _call(name: str, inputs: tuple[int, ...], classes: int) -> nn.Module:
    """Your function, with as much of ``inputs`` and ``classes`` as it takes."""
    module, _, function = name.partition(":")
    try:
        maker = getattr(import_module(module), function, None)
    except (ImportError, ValueError, TypeError):
        maker = None
    known = signature(maker).parameters if callable(maker) else {}
    takes_all = any(p.kind is Parameter.VAR_KEYWORD for p in known.values())
    if callable(maker) and not takes_all and not {"inputs", "classes"} <= set(known):
        options = {key: value for key, value in (("inputs", inputs), ("classes", classes)) if key in known}
        model = maker(**options)
        if isinstance(model, nn.Module):
            check_fits(model, name)
            return model
    return _make(name, inputs, classes)


def _guesses(model: nn.Module, inputs: tuple[int, ...], batch: int) -> Iterator[Tensor]:
    """Batches that the first layer with weights may take, the likeliest first, then what it was made for."""
    first = next((m for m in model.modules() if next(m.parameters(recurse=False), None) is not None), None)
    match first:
        case nn.Embedding():
            yield torch.randint(first.num_embeddings, (batch, *(inputs if len(inputs) == 1 else (_LENGTH,))))
        case nn.Conv2d():
            yield torch.randn(batch, first.in_channels, _SIDE, _SIDE)
        case nn.Conv1d():
            yield torch.randn(batch, first.in_channels, _LENGTH)
        case nn.Linear():
            yield torch.randn(batch, first.in_features)
            yield torch.randn(batch, _LENGTH, first.in_features)
    words = min((m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding)), default=None)
    if words is not None:
        yield torch.randint(words, (batch, *inputs))
    yield torch.randn(batch, *inputs)


def _runs(model: nn.Module, x: Tensor) -> str | None:
    """None if the network takes ``x``, else what it said."""
    try:
        loss(model(x), torch.empty(0)).backward()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    model.zero_grad()
    return None


def _tensor(output: Any) -> Tensor:
    """The first tensor of what a network returns."""
    while not isinstance(output, Tensor):
        match output:
            case dict():
                output = next(iter(output.values()))
            case tuple() | list() if output:
                output = output[0]
            case _:
                raise PlanError(f"the network returns a {type(output).__name__}; a plan needs a tensor to go back from")
    return output
