"""Residual networks: shapes of the stages, both shortcuts, and blocks that begin as identity."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tightwire.models import make
from tightwire.models.resnet import Block, Pad, basic


def sides(model: nn.Module, inputs: tuple[int, int, int]) -> list[tuple[int, int]]:
    """Channels and side after each block."""
    seen: list[tuple[int, int]] = []
    for block in model.modules():
        if isinstance(block, Block):
            block.register_forward_hook(lambda _, __, out: seen.append((out.shape[1], out.shape[2])))
    model(torch.empty(2, *inputs, device="meta"))
    return seen


@pytest.mark.parametrize(
    ("name", "inputs", "wanted"),
    [
        ("resnet20", (3, 32, 32), [(16, 32)] * 3 + [(32, 16)] * 3 + [(64, 8)] * 3),
        ("resnet18", (3, 224, 224), [(64, 56)] * 2 + [(128, 28)] * 2 + [(256, 14)] * 2 + [(512, 7)] * 2),
        ("resnet18", (3, 32, 32), [(64, 32)] * 2 + [(128, 16)] * 2 + [(256, 8)] * 2 + [(512, 4)] * 2),
        ("resnet50", (3, 224, 224), [(256, 56)] * 3 + [(512, 28)] * 4 + [(1024, 14)] * 6 + [(2048, 7)] * 3),
    ],
)
def test_stages_have_the_shapes_of_the_paper(
    name: str, inputs: tuple[int, int, int], wanted: list[tuple[int, int]]
) -> None:
    with torch.device("meta"):
        model = make(name, inputs=inputs, classes=10)
    assert sides(model, inputs) == wanted


@pytest.mark.parametrize(
    ("name", "weighted", "options"),
    [
        ("resnet20", 20, {}), ("resnet56", 56, {}), ("resnet18", 18, {}), ("resnet50", 50, {}),
        ("resnet20", 20, {"block": "bottleneck"}), ("resnet56", 56, {"block": "bottleneck"}),
    ],
)  # fmt: skip
def test_the_number_in_the_name_counts_weighted_layers(name: str, weighted: int, options: dict[str, str]) -> None:
    with torch.device("meta"):
        model = make(name, inputs=(3, 32, 32), classes=10, **options)
    layers = [m for path, m in model.named_modules() if isinstance(m, nn.Conv2d | nn.Linear) and "shortcut" not in path]
    assert len(layers) == weighted


def test_bottleneck_blocks_for_small_images_are_four_times_as_wide() -> None:
    with torch.device("meta"):
        model = make("resnet56", inputs=(3, 32, 32), classes=10, block="bottleneck")
    assert sides(model, (3, 32, 32)) == [(64, 32)] * 6 + [(128, 16)] * 6 + [(256, 8)] * 6
    kernels = [m.kernel_size[0] for m in model[3].modules() if isinstance(m, nn.Conv2d)]
    assert kernels == [1, 3, 1]


def test_padding_keeps_every_other_pixel_and_adds_zeros_around_the_channels() -> None:
    x = torch.rand(2, 3, 4, 4) + 1
    out = Pad(4, 2)(x)
    assert out.shape == (2, 7, 2, 2)
    assert torch.equal(out[:, 2:5], x[:, :, ::2, ::2])
    assert out[:, :2].count_nonzero() == out[:, 5:].count_nonzero() == 0


def test_a_block_whose_last_scale_is_0_begins_as_identity() -> None:
    x = torch.rand(2, 8, 4, 4)
    assert torch.equal(Block(basic(8, 8, 1), nn.Identity(), 0.0)(x), x)
    assert not torch.equal(Block(basic(8, 8, 1), nn.Identity(), 1.0)(x), x)


@pytest.mark.parametrize("last_gamma", [0.0, 1.0])
def test_only_the_last_scale_of_each_block_is_chosen(last_gamma: float) -> None:
    model = make("resnet20", inputs=(1, 8, 8), classes=3, last_gamma=last_gamma)
    scales = [m.weight.mean().item() for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    assert scales == [1.0] + [1.0, last_gamma] * 9
