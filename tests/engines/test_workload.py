"""What a configuration makes: images as published results want them, and workers that draw apart."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.data.test_cifar import cifar_binary, cifar_files
from tightwire.data.rows import Rows, Samples
from tightwire.engines import workload
from tightwire.engines.config import ConfigError, RunConfig
from tightwire.engines.workload import draw_apart, make_workload


def changes(config: RunConfig) -> bool:
    """Whether a training image differs from one time to the next."""
    data, _ = make_workload(config)
    assert isinstance(data.train, Rows)
    some = torch.arange(10)
    return not torch.equal(data.train.batch(some)[0], data.train.batch(some)[0])


def test_photographs_are_shifted_and_mirrored_unless_told_not_to(tmp_path: Path) -> None:
    cifar_files(tmp_path, cifar_binary, ".bin")
    photographs = RunConfig(data="cifar10", data_folder=str(tmp_path), model="resnet20")
    assert changes(photographs)
    assert not changes(photographs.but(augment="none"))
    assert not changes(RunConfig())


def test_what_is_no_photograph_is_not_mirrored() -> None:
    with pytest.raises(ConfigError, match="crop-flip is for photographs"):
        make_workload(RunConfig(augment="crop-flip"))


def test_workers_start_alike_and_draw_apart() -> None:
    drawn, weights = [], []
    for rank in (0, 1, 0):
        config = RunConfig(seed=3)
        weights.append(next(make_workload(config)[1].parameters()).detach())
        draw_apart(config, rank)
        drawn.append(torch.rand(4))
    assert all(torch.equal(weights[0], other) for other in weights)
    assert torch.equal(drawn[0], drawn[2]) and not torch.equal(drawn[0], drawn[1])


def test_a_small_training_set_lies_where_the_network_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def where(device: str) -> str:
        data, model = make_workload(RunConfig(data="cifar10", data_folder=str(tmp_path), model="resnet20").but(
            device=device))  # fmt: skip
        assert isinstance(data.train, Samples)
        assert next(model.parameters()).device.type == device and data.train.labels.device.type == "cpu"
        return data.train.x.device.type

    cifar_files(tmp_path, cifar_binary, ".bin")
    assert (where("cpu"), where("meta")) == ("cpu", "meta")
    monkeypatch.setattr(workload, "_NEAR_NBYTES", 1000)
    assert where("meta") == "cpu"
