"""The same network on a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.compress.run.test_build import shared
from tightwire.compress.errors import CompressError
from tightwire.compress.run import build, choices
from tightwire.compress.run.form import FormName
from tightwire.compress.run.gpu import coded
from tightwire.compress.run.remember import Remembered
from tightwire.kernels.codebook_layout import ListedCodes, PackedCodes

CPU = torch.device("cpu")


def net() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 40), nn.ReLU(), nn.Linear(40, 5))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("batch", [1, 7, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("form", ["compressed", None])
def test_a_network_on_the_gpu_computes_what_the_dense_one_does(
    batch: int, dtype: torch.dtype, form: FormName | None
) -> None:
    weights = {
        "0.weight": shared((3, 2, 3, 3)),
        "3.weight": shared((40, 108), centroids=100),
        "5.weight": shared((5, 40)),
    }
    dense, built = net().eval(), net().to(dtype)
    built.load_state_dict(dense.state_dict())
    for name, tensor in weights.items():
        dict(dense.named_parameters())[name].data.copy_(tensor.dense())
    build(built, weights, device="cuda", form=form)
    x = torch.randn(batch, 2, 8, 8)
    want = dense(x).detach()
    near = 1e-4 if dtype == torch.float32 else 2e-2
    assert torch.allclose(built(x.to("cuda", dtype)).float().cpu(), want, atol=near * float(want.abs().max()))
    with pytest.raises(CompressError, match="built for cuda"):
        built(x.to(dtype))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_faster_form_is_measured_and_remembered(tmp_path: Path) -> None:
    weights = {"0.weight": shared((3, 2, 3, 3)), "3.weight": shared((40, 108), centroids=100)}
    for why in ("measured", "remembered"):
        conv, linear = choices(build(net(), weights, device="cuda", remembered=Remembered(tmp_path / "forms.json")))
        assert (conv.form, conv.why, linear.why) == ("dense", "the only one", why)
        assert linear.seconds.keys() == {"dense", "compressed"} and min(linear.seconds.values()) > 0
        assert linear.seconds[linear.form] == min(linear.seconds.values())
    big = shared((4096, 4096), granularity="fine", centroids=15)
    layer = nn.Sequential(nn.Linear(4096, 4096, bias=False)).half()
    (choice,) = choices(build(layer, {"0.weight": big}, device="cuda"))
    assert choice.form == "compressed", choice


def test_the_layout_of_fewer_bytes_is_taken() -> None:
    few, some = shared((50, 100), centroids=7), shared((50, 100), granularity="filter", centroids=7)
    some.code_N[:] = 0
    some.code_N[:20] = 3
    assert isinstance(coded(few, CPU), PackedCodes)
    assert isinstance(coded(some, CPU), ListedCodes)
