"""A network built from shared weights computes what the dense one with the decoded weights computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tightwire.compress.errors import CompressError
from tightwire.compress.run import FORMS, FormName, Remembered, build, choices
from tightwire.compress.run.layers import SharedConv, SharedLinear
from tightwire.compress.shared_weights import SharedWeights, code_type


def pruned(shape: tuple[int, ...], granularity: str, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """A mask: single weights, rows of a kernel, whole kernels or whole filters."""
    tail = {"fine": len(shape), "vector": len(shape) - 1, "kernel": 2, "filter": 1}[granularity]
    drawn = random.random(shape[: min(tail, len(shape))]) < 0.4
    return np.broadcast_to(drawn.reshape(drawn.shape + (1,) * (len(shape) - drawn.ndim)), shape)


def shared(shape: tuple[int, ...], *, granularity: str = "fine", centroids: int = 7, seed: int = 0) -> SharedWeights:
    random = np.random.default_rng(seed)
    code = np.where(pruned(shape, granularity, random), random.integers(1, centroids + 1, shape), 0)
    codebook = np.sort(random.normal(size=centroids).astype(np.float32))
    return SharedWeights(shape, code.reshape(-1).astype(code_type(centroids)), codebook)


def pair(layer: nn.Module, form: FormName | None, **options: Any) -> tuple[nn.Module, nn.Module]:
    """The network built from shared weights, and the dense one with the same."""
    weight = layer.weight
    assert isinstance(weight, Tensor)
    tensor = shared(tuple(weight.shape), **options)
    dense, built = nn.Sequential(layer), nn.Sequential(type(layer).__new__(type(layer)))
    built[0].__dict__ = {**layer.__dict__, "_parameters": dict(layer._parameters)}
    made = build(built, {"0.weight": tensor}, form=form)
    weight.data.copy_(tensor.dense())
    return made, dense


CONVOLUTIONS = st.fixed_dictionaries(
    {
        "kernel_size": st.tuples(st.integers(1, 4), st.integers(1, 3)),
        "stride": st.tuples(st.integers(1, 3), st.integers(1, 3)),
        "padding": st.one_of(st.tuples(st.integers(0, 2), st.integers(0, 2)), st.just("valid")),
        "dilation": st.tuples(st.integers(1, 2), st.integers(1, 3)),
        "groups": st.sampled_from([1, 2, 4]),
        "bias": st.booleans(),
        "padding_mode": st.sampled_from(["zeros", "reflect", "circular", "replicate"]),
    }
)


@given(
    options=CONVOLUTIONS, form=st.sampled_from(FORMS),
    granularity=st.sampled_from(["fine", "vector", "kernel", "filter"]),
    centroids=st.sampled_from([1, 32, 300]), images=st.integers(0, 3), dimensions=st.sampled_from([1, 2]),
)  # fmt: skip
def test_a_convolution_from_the_compressed_form(
    options: dict[str, Any], form: FormName, granularity: str, centroids: int, images: int, dimensions: int
) -> None:
    if dimensions == 1:
        options = {key: value[:1] if isinstance(value, tuple) else value for key, value in options.items()}
    layer = (nn.Conv1d if dimensions == 1 else nn.Conv2d)(4, 8, **options).requires_grad_(False)
    made, dense = pair(layer, form, granularity=granularity, centroids=centroids)
    x = torch.randn(4, 13, 11)[..., :dimensions, :].squeeze(1) if dimensions == 1 else torch.randn(4, 13, 11)
    x = x if images == 0 else torch.stack([x * (n + 1) for n in range(images)])
    got, want = made(x), dense(x)
    assert got.shape == want.shape
    assert torch.allclose(got, want, rtol=1e-5, atol=1e-5)


@given(
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 90)), form=st.sampled_from(FORMS), bias=st.booleans(),
    granularity=st.sampled_from(["fine", "filter"]), centroids=st.sampled_from([1, 32, 300]),
    batch=st.sampled_from([(), (1,), (3,), (2, 9), (64,)]),
)  # fmt: skip
def test_a_linear_layer_from_the_compressed_form(
    sizes: tuple[int, int], form: FormName, bias: bool, granularity: str, centroids: int, batch: tuple[int, ...]
) -> None:
    layer = nn.Linear(sizes[1], sizes[0], bias=bias).requires_grad_(False)
    made, dense = pair(layer, form, granularity=granularity, centroids=centroids)
    x = torch.randn(*batch, sizes[1])
    assert torch.allclose(made(x), dense(x), rtol=1e-5, atol=1e-5)


class Tied(nn.Module):
    """One layer twice, a tensor that is no layer's, batch norm, and a subclass that must be left alone."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.again = self.conv
        self.norm = nn.BatchNorm2d(2)
        self.scale = nn.Parameter(torch.ones(2, 1, 1))
        self.own = _Doubled(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.again(torch.relu(self.conv(x)))) * self.scale
        y: Tensor = self.own(x.flatten(1))
        return y


class _Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


@pytest.mark.parametrize("form", FORMS)
def test_a_network_with_tied_layers_other_tensors_and_subclasses(form: FormName) -> None:
    weights = {"conv.weight": shared((2, 2, 3, 3)), "scale": shared((2, 1, 1)), "own.weight": shared((3, 8))}
    dense, built = Tied().eval(), Tied().eval()
    built.load_state_dict(dense.state_dict())
    for name, tensor in weights.items():
        dict(dense.named_parameters())[name].data.copy_(tensor.dense())
    build(built, weights, form=form)
    assert built.conv is built.again and isinstance(built.conv, SharedConv) and isinstance(built.own, _Doubled)
    x = torch.randn(5, 2, 2, 2)
    assert torch.allclose(built(x), dense(x), rtol=1e-5, atol=1e-5)


def test_a_layer_that_is_the_network_is_replaced_too() -> None:
    tensor = shared((5, 9))
    made = build(nn.Linear(9, 5, bias=False), {"weight": tensor}, form="compressed")
    assert isinstance(made, SharedLinear)
    assert torch.allclose(made(torch.eye(9)).T, tensor.dense())


def test_the_form_that_took_least_is_chosen_and_the_choice_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(108, 4))
    weights = {"0.weight": shared((3, 2, 3, 3)), "2.weight": shared((4, 108))}
    build(net, weights, example=torch.randn(2, 2, 8, 8))
    conv, linear = choices(net)
    assert (conv.layer, linear.layer, conv.why, linear.shape) == ("0", "2", "measured", (4, 108))
    for choice in (conv, linear):
        assert set(choice.seconds) == set(FORMS)
        assert choice.form == min(choice.seconds, key=choice.seconds.__getitem__)
        assert choice.form in str(choice) and "µs" in str(choice)


def test_measurements_are_remembered_for_layers_that_are_alike(tmp_path: Path) -> None:
    memory = Remembered(tmp_path / "cache" / "forms.json")
    weights = {"0.weight": shared((6, 40))}
    first = choices(build(nn.Sequential(nn.Linear(40, 6)), weights, remembered=memory))[0]
    second = choices(build(nn.Sequential(nn.Linear(40, 6)), weights, remembered=memory))[0]
    assert (first.why, second.why) == ("measured", "remembered")
    assert second.seconds == first.seconds and second.form == first.form
    other = choices(build(nn.Sequential(nn.Linear(40, 6)), weights, remembered=memory, example=torch.randn(64, 40)))[0]
    assert other.why == "measured"


@pytest.mark.parametrize("text", ["", "[1]", '{"machine": "another", "seconds": {}}', '{"machine": 1, "seconds": 2}'])
def test_a_cache_file_that_is_damaged_or_of_another_machine_is_begun_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / "forms.json"
    path.write_text(text)
    memory = Remembered(path)
    assert memory.find("a layer") is None
    memory.add({"a layer": {"dense": 1.0}})
    assert memory.find("a layer") == {"dense": 1.0}
    assert [file.name for file in tmp_path.iterdir()] == ["forms.json"]


def test_what_does_not_fit_is_refused_with_the_values() -> None:
    net = nn.Sequential(nn.Linear(3, 2))
    with pytest.raises(CompressError, match=r"1.weight of shape \(2, 3\) .* is not there"):
        build(net, {"1.weight": shared((2, 3))})
    with pytest.raises(CompressError, match=r"has shape \(2, 3\)"):
        build(net, {"0.weight": shared((3, 2))})
    built = build(net, {"0.weight": shared((2, 3))}, form="compressed")
    with pytest.raises(CompressError, match="takes 3 inputs"):
        built(torch.zeros(4))
    conv = build(nn.Sequential(nn.Conv1d(3, 2, 3)), {"0.weight": shared((2, 3, 3))}, form="compressed")
    with pytest.raises(CompressError, match="3 channels of 1 dimensions"):
        conv(torch.zeros(1, 2, 9))


def test_half_precision_is_computed_in_single_and_given_back_in_half() -> None:
    tensor = shared((5, 9))
    made = build(nn.Sequential(nn.Linear(9, 5, bias=False)), {"0.weight": tensor}, form="compressed")
    y = made(torch.eye(9, dtype=torch.float16))
    assert y.dtype == torch.float16
    assert torch.equal(y.T, tensor.dense().half())
