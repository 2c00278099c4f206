"""`build`: put shared weights into a network, every layer in the form that is fastest on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from tightwire.compress.errors import CompressError
from tightwire.compress.run import decide
from tightwire.compress.run.conv import conv_form
from tightwire.compress.run.form import Choice, Form, FormName
from tightwire.compress.run.gpu import can_be_coded, gpu_form
from tightwire.compress.run.gpu import measure as measure_on_gpu
from tightwire.compress.run.layers import SharedConv, SharedLinear
from tightwire.compress.run.linear import linear_form
from tightwire.compress.run.matrix import first_rows
from tightwire.compress.run.remember import Remembered
from tightwire.compress.shared_weights import SharedWeights

_MAP = (16, 16)  # rows and columns on which a convolution is timed where no example says how many
_KINDS = (nn.Linear, nn.Conv1d, nn.Conv2d)  # exactly these: a subclass may compute something else
_CACHE = 32 << 20  # bytes: a network with more weights finds its layers cold


def build(
    model: nn.Module,
    weights: Mapping[str, SharedWeights],
    *,
    example: Tensor | None = None,
    form: FormName | None = None,
    device: str | torch.device = "cpu",
    remembered: Remembered | None = None,
) -> nn.Module:
    """The network with its weights replaced by ``weights``, a tensor by the name of its parameter, in place.

    Linear layers and convolutions of one or two dimensions become modules that run from the compressed form, or from
    the sparse or dense one where that is faster: measured here, once, on an input like ``example``, unless ``form``
    says which. Other tensors are decoded. ``remembered`` keeps the measurements (`remember.default_path`).

    >>> import numpy as np
    >>> shared = SharedWeights((2, 3), np.array([0, 1, 2, 0, 0, 1], np.uint8), np.array([-1.0, 2.0], np.float32))
    >>> net = build(nn.Sequential(nn.Linear(3, 2, bias=False)), {"0.weight": shared}, form="compressed")
    >>> net(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[ 4., -3.]])
    """
    device = torch.device(device)
    _check_fit(model, weights)
    model.to(device)
    inputs = _inputs(model, example.to(device)) if example is not None else {}
    total = sum(4 * shared.numel for shared in weights.values())
    chooser = _Chooser(form, device, remembered or Remembered(None), inputs, cold=total > _CACHE)
    if type(model) in _KINDS and "weight" in weights:
        return chooser.done(chooser.replace("", model, weights["weight"]))
    _replace_layers(model, weights, chooser)
    for name, parameter in model.named_parameters():
        if name in weights:
            parameter.data.copy_(weights[name].dense())
    return chooser.done(model)


def _check_fit(model: nn.Module, weights: Mapping[str, SharedWeights]) -> None:
    parameters = dict(model.named_parameters())
    for name, shared in weights.items():
        if name not in parameters or tuple(parameters[name].shape) != shared.shape:
            has = f"has shape {tuple(parameters[name].shape)}" if name in parameters else "is not there"
            raise CompressError(f"{name} of shape {shared.shape} does not fit the network, in which it {has}")


def _replace_layers(model: nn.Module, weights: Mapping[str, SharedWeights], chooser: _Chooser) -> None:
    places = list(_layers(model))
    replaced: dict[nn.Module, nn.Module] = {}
    for _, _, path, layer in places:
        if f"{path}.weight" in weights and layer not in replaced:
            replaced[layer] = chooser.replace(path, layer, weights[f"{path}.weight"])
    for parent, attribute, _, layer in places:  # a layer that is used twice stands in two places
        if layer in replaced:
            setattr(parent, attribute, replaced[layer])


def choices(model: nn.Module) -> list[Choice]:
    """Which form every layer of a built network runs in."""
    return [module.choice for module in model.modules() if isinstance(module, SharedLinear | SharedConv)]


@dataclass
class _Chooser:
    form: FormName | None
    device: torch.device
    remembered: Remembered
    inputs: Mapping[nn.Module, tuple[int, ...]]
    cold: bool
    found: dict[str, dict[str, float]] = field(default_factory=dict)

    def done(self, model: nn.Module) -> nn.Module:
        """The network, once what was measured is kept."""
        self.remembered.add(self.found)
        return model.eval()

    def replace(self, path: str, layer: nn.Module, shared: SharedWeights) -> nn.Module:
        """The module that takes the layer's place."""
        assert isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d)
        choice = self.choose(path, layer, shared)
        if self.device.type == "cuda":
            made = gpu_form(choice.form, shared, layer, self.device)
        else:
            made = _form(layer, shared, choice.form)
        if isinstance(layer, nn.Linear):
            return SharedLinear(made, inputs=layer.in_features, choice=choice, device=self.device)
        dimensions = len(layer.kernel_size)
        return SharedConv(made, inputs=layer.in_channels, dimensions=dimensions, choice=choice, device=self.device)

    def choose(self, path: str, layer: nn.Linear | nn.Conv1d | nn.Conv2d, shared: SharedWeights) -> Choice:
        """Asked for, remembered or measured."""
        said = partial(Choice, path or "the layer", shared.shape, shared.density)
        if self.form is not None:
            return said(self.form, "asked for")
        if not shared.numel:
            return said("dense", "the only one")
        on_gpu = self.device.type == "cuda"
        if on_gpu and not can_be_coded(layer, shared):
            return said("dense", "the only one")
        shape = self.inputs.get(layer, _guess(layer))
        where = f" {layer.weight.dtype} on {torch.cuda.get_device_name(self.device)}" if on_gpu else ""
        key = decide.key(kind=_kind(layer) + where, shape=shared.shape, density=shared.density,
                         centroids=len(shared.codebook_K), inputs=shape)  # fmt: skip
        seconds = self.found.get(key) or self.remembered.find(key)
        if seconds is not None:
            return said(decide.best(seconds), "remembered", seconds)
        if on_gpu:
            assert isinstance(layer, nn.Linear)
            self.found[key] = measure_on_gpu(layer, shared, shape, self.device)
        else:
            self.found[key] = measure(layer, shared, shape, cold=self.cold)
        return said(decide.best(self.found[key]), "measured", self.found[key])


def measure(
    layer: nn.Linear | nn.Conv1d | nn.Conv2d, shared: SharedWeights, inputs: tuple[int, ...], *, cold: bool
) -> dict[str, float]:
    """Seconds of each form of a layer, or of its first rows, on an input of this shape."""
    rows, own = shared.shape[0], shared.numel // shared.shape[0]
    groups = 1 if isinstance(layer, nn.Linear) else layer.groups
    part = first_rows(shared, decide.probe_rows(rows, own, groups=groups))
    x = torch.rand(inputs)
    if not isinstance(layer, nn.Linear) and x.dim() == len(layer.kernel_size) + 1:
        x = x[None]
    if isinstance(layer, nn.Conv1d):
        # The sparse and compressed forms see one dimension as two.
        return decide.fastest(lambda name: _Flat(_form(layer, part, name), name), x, cold=cold)
    return decide.fastest(lambda name: _form(layer, part, name), x, cold=cold)


@dataclass(frozen=True)
class _Flat:
    form: Form
    name: FormName

    @property
    def nbytes(self) -> int:
        return self.form.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        return self.form(x if self.name == "dense" else x[:, :, None])


def _form(layer: nn.Linear | nn.Conv1d | nn.Conv2d, shared: SharedWeights, name: FormName) -> Form:
    if isinstance(layer, nn.Linear):
        return linear_form(name, shared, layer)
    return conv_form(name, shared, layer)


def _kind(layer: nn.Linear | nn.Conv1d | nn.Conv2d) -> str:
    if isinstance(layer, nn.Linear):
        return "linear"
    return f"conv stride {layer.stride} dilation {layer.dilation} groups {layer.groups}"


def _guess(layer: nn.Linear | nn.Conv1d | nn.Conv2d) -> tuple[int, ...]:
    if isinstance(layer, nn.Linear):
        return (1, layer.in_features)
    reach = max(d * (k - 1) + 1 for d, k in zip(layer.dilation, layer.kernel_size, strict=True))
    return (1, layer.in_channels, *(max(side, reach) for side in _MAP[: len(layer.kernel_size)]))


def _layers(model: nn.Module) -> Iterator[tuple[nn.Module, str, str, nn.Module]]:
    """Parent, attribute, path and module of every layer that can be replaced."""
    for path, module in model.named_modules(remove_duplicate=False):
        for attribute, child in module._modules.items():
            if child is not None and type(child) in _KINDS:
                yield module, attribute, f"{path}.{attribute}" if path else attribute, child


def _inputs(model: nn.Module, example: Tensor) -> dict[nn.Module, tuple[int, ...]]:
    """The shape that every layer is given when the network sees the example."""
    seen: dict[nn.Module, tuple[int, ...]] = {}

    def see(module: nn.Module, given: tuple[Tensor, ...]) -> None:
        seen.setdefault(module, tuple(given[0].shape))

    hooks = [child.register_forward_pre_hook(see) for _, _, _, child in _layers(model)]
    was = model.training
    with torch.no_grad():
        model.eval()(example)
    model.train(was)
    for hook in hooks:
        hook.remove()
    return seen
