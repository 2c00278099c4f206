"""Spare channels change nothing: the network that was trained with them is the one trained without."""

from __future__ import annotations

import torch
from benchmarks.amc_spare import WIDTHS, train_with_spare
from torch import nn

from tests.compress.search.toys import examples, network
from tightwire.compress.retrain import Constraint, Examples, Training, train
from tightwire.compress.search.budget import parse_budget
from tightwire.compress.search.build import Wish, build
from tightwire.compress.search.channels import Channels


def test_a_network_trained_with_spare_channels_is_the_one_trained_without() -> None:
    model, some = network("residual"), examples()
    made = build(model, some, some, Wish(parse_budget("flops=1"), multiple_of=2))
    scorer = made.scorer
    assert isinstance(scorer, Channels)
    levels = [n % 3 for n in range(len(made.problem.units))]
    how = Training(epochs=3, batch=16, optimizer="sgd", lr=0.02, weight_decay=1e-3)
    exact = Examples(some.x_N.double(), some.y_N)  # so that widths do not tell by how sums are rounded
    widths: list[int] = []

    def trained_on(wide: nn.Module, held: Constraint) -> None:
        widths.extend(layer.num_features for layer in wide.modules() if isinstance(layer, nn.BatchNorm2d))
        train(wide.double(), exact, how, constraint=held)
        wide.float()

    found = train_with_spare(scorer, levels, made.example, trained_on)
    plain = scorer.cut(levels, made.example)
    before = {name: tensor.clone() for name, tensor in plain.state_dict().items()}
    train(plain.double(), exact, how)
    plain.float()
    for name, tensor in plain.state_dict().items():
        assert torch.allclose(found.state_dict()[name], tensor, rtol=0, atol=1e-6), name
    assert any(not torch.allclose(before[name], tensor, atol=1e-3) for name, tensor in plain.state_dict().items())
    assert any(wide % WIDTHS == 0 for wide in widths)
    assert sum(p.numel() for p in found.parameters()) == sum(p.numel() for p in plain.parameters())
