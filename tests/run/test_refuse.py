"""What cannot be joined gets one sentence that says what to do instead."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.worlds import processes
from tightwire.algebra.errors import JoinError
from tightwire.exchanges.allreduce import multi_ring
from tightwire.recipes import layerwise, sync_sgd
from tightwire.run.join import join
from tightwire.run.together import together


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def test_lbfgs() -> None:
    model = nn.Linear(1, 1)
    with pytest.raises(JoinError, match="LBFGS evaluates the loss several times"):
        join(sync_sgd(), model, torch.optim.LBFGS(model.parameters()))


def test_nothing_to_train() -> None:
    model = nn.Linear(1, 1)
    optimizer = sgd(model)
    model.requires_grad_(False)
    with pytest.raises(JoinError, match="nothing to train"):
        join(sync_sgd(), model, optimizer)


def test_parameters_outside_the_model() -> None:
    model, loss = nn.Linear(1, 1), nn.Parameter(torch.zeros(3))
    with pytest.raises(JoinError, match=r"shape \(3,\).*put it into a module"):
        join(sync_sgd(), model, torch.optim.SGD([*model.parameters(), loss], lr=0.1))


def test_lazy_modules() -> None:
    model = nn.LazyLinear(2)
    with pytest.raises(JoinError, match="run one batch"):
        join(sync_sgd(), model, torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1))


def test_meta_tensors() -> None:
    model = nn.Linear(1, 1, device="meta")
    with pytest.raises(JoinError, match="meta device"):
        join(sync_sgd(), model, sgd(model))


def test_complex_parameters() -> None:
    model = nn.Linear(1, 1, dtype=torch.complex64)
    with pytest.raises(JoinError, match="view_as_real"):
        join(sync_sgd(), model, sgd(model))


def test_one_stage_for_each_worker() -> None:
    def one(rank: int) -> None:
        model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
        join(layerwise(2), model, sgd(model))

    with pytest.raises(JoinError, match="2 stages and there are 3 workers"):
        together(3, one)


def test_a_grid_that_does_not_fit() -> None:
    def one(rank: int) -> None:
        model = nn.Linear(1, 1)
        join(sync_sgd(multi_ring(2, 2)), model, sgd(model))

    with pytest.raises(ValueError, match=r"grid of 4 workers, the world has 3"):
        together(3, one)


def test_workers_with_different_models() -> None:
    def one(rank: int) -> None:
        model = nn.Linear(1, 1 + rank)
        join(sync_sgd(), model, sgd(model))

    with pytest.raises(JoinError, match="rank 1 joined with another model or recipe"):
        together(2, one)


def refusal() -> str:
    model = nn.Linear(1, 1)
    dist.init_process_group("gloo")
    try:
        join(sync_sgd(), DistributedDataParallel(model), sgd(model))
    except JoinError as error:
        return str(error)
    finally:
        dist.destroy_process_group()
    return ""


@pytest.mark.processes
def test_ddp_over_torch_distributed() -> None:
    ddp = processes(1, refusal)[0]
    assert "DistributedDataParallel" in ddp and ".module" in ddp
