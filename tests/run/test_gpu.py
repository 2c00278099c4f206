"""Recipes on a GPU: the in-process link, and processes that share one GPU over gloo."""

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from tests.worlds import processes
from tightwire.algebra.codec import Encoding
from tightwire.algebra.recipe import AnyRecipe
from tightwire.algebra.tensors import Bucket, State
from tightwire.algebra.world import At, groups_of
from tightwire.codecs.half import half
from tightwire.codecs.topk import TopK
from tightwire.exchanges.allreduce import ring
from tightwire.exchanges.gather import gather
from tightwire.exchanges.server import server
from tightwire.memories.residual import residual
from tightwire.recipes import (
    asgd,
    dgc,
    hardsync,
    layerwise,
    local_sgd,
    one_bit,
    one_forward_one_backward,
    pipedream,
    poseidon,
    powersgd,
    recipe,
    round_robin_easgd,
    sync_sgd,
    weird_trick,
)
from tightwire.run.ddp import ddp_hook
from tightwire.run.join import join
from tightwire.run.together import together
from tightwire.testing.cases import batches, distance, network, part, whole

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

RECIPES: dict[str, tuple[AnyRecipe, int]] = {
    "sync-sgd": (sync_sgd(ring()), 3),
    "local-sgd": (local_sgd(4, exchange=ring()), 3),
    "one-bit": (one_bit(), 3),
    "powersgd": (powersgd(exchange=ring()), 3),
    "poseidon": (poseidon("factors", exchange=ring()), 3),
    "dgc": (dgc(0.1, momentum=0.9), 3),
    "dgc in tiers": (dgc(0.1, hosts="tiers", by=groups_of(2)), 4),
    "layerwise": (layerwise(2), 2),
    "layerwise, foretold, in halves": (layerwise(2, compensation="both").but(codec=half()), 2),
    "pipedream": (pipedream(2, sync="vertical"), 2),
    "1f1b": (one_forward_one_backward(2, microbatches=3), 2),
    "weird-trick": (weird_trick(3, scheme="c"), 3),
}


def train(chosen: AnyRecipe, device: str, steps: int = 15) -> dict[str, Tensor]:
    model = network("mlp").to(device)
    with join(chosen, model, torch.optim.SGD(model.parameters(), lr=0.05)) as wire:
        mine = whole if wire.pipeline is not None else part(wire.rank, wire.size)
        for x, y in batches("mlp", steps):
            wire.batch(mine(x).to(device), mine(y).to(device), F.mse_loss)
            wire.step()
    return {name: weight.detach().cpu() for name, weight in model.named_parameters()}


@pytest.mark.parametrize("name", [*RECIPES, "asgd"])
def test_a_gpu_gives_what_a_cpu_gives(name: str) -> None:
    chosen, workers = (asgd(), 2) if name == "asgd" else RECIPES[name]
    on_cpu = together(workers, lambda rank: train(chosen, "cpu"))
    on_gpu = together(workers, lambda rank: train(chosen, "cuda"))
    for one, two in zip(on_cpu, on_gpu, strict=True):
        assert distance(two, one) < 1e-3


def train_wide(device: str) -> dict[str, Tensor]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 8), nn.Sigmoid(), nn.Linear(8, 8), nn.Sigmoid(), nn.Linear(8, 11)).to(device)
    torch.manual_seed(4)
    with join(layerwise(3, wide=4), model, torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)) as wire:
        for _ in range(8):
            x, y = torch.randn(6, 5), torch.randint(11, (6,))
            wire.batch(x.to(device), y.to(device), F.cross_entropy)
            wire.step()
    return {name: weight.detach().cpu() for name, weight in model.named_parameters()}


def test_a_wide_layer_on_a_gpu_gives_what_a_cpu_gives() -> None:
    on_cpu, on_gpu = (together(4, lambda rank, device=device: train_wide(device)) for device in ("cpu", "cuda"))
    assert distance(on_gpu[0], on_cpu[0]) < 1e-3


@pytest.mark.processes
@pytest.mark.parametrize("name", RECIPES)
def test_processes_on_one_gpu_equal_the_in_process_link(name: str) -> None:
    chosen, workers = RECIPES[name]
    ours = together(workers, lambda rank: train(chosen, "cuda"))
    theirs = processes(workers, train, chosen, "cuda", timeout_s=110.0)
    for one, two in zip(ours, theirs, strict=True):
        assert distance(two, one) < 1e-6


SERVED: dict[str, AnyRecipe] = {
    "gradients": hardsync(),
    "gradients on 2 shards": hardsync().but(exchange=server(2)),
    "few gradients": hardsync().but(memory=residual(), codec=TopK(0.05)),
    "displacements": round_robin_easgd(),
}


def train_large(name: str, steps: int = 8) -> dict[str, Tensor]:
    """Buckets of several MB, so that they are received into pinned memory."""
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(64, 1024), nn.Tanh(), nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, 8)).cuda()
    with join(SERVED[name], model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
        for step in range(steps):
            dice = torch.Generator().manual_seed(100 * step + wire.rank)
            x = torch.randn(16, 64, generator=dice).cuda()
            wire.batch(x, x[:, :8], F.mse_loss)
            wire.step()
    return {name: weight.detach().cpu() for name, weight in model.named_parameters()}


@pytest.mark.processes
@pytest.mark.parametrize("name", SERVED)
def test_staged_through_pinned_memory_a_server_gives_what_it_gives_unstaged(name: str) -> None:
    """In one process nothing is staged; between processes rank 1 stages everything, rank 0 what is not its own."""
    unstaged = together(2, lambda rank: train_large(name))
    staged = processes(2, train_large, name, timeout_s=110.0)
    for one, other in zip(unstaged, staged, strict=True):
        assert distance(one, other) < 1e-6


class Spy(TopK):
    """Notes the stream on which it is asked to encode."""

    def encode(self, x: Bucket, state: State, at: At) -> Encoding:
        STREAMS.append(torch.cuda.current_stream().cuda_stream)
        return super().encode(x, state, at)


STREAMS: list[int] = []


def test_encoding_runs_on_a_side_stream() -> None:
    spying = recipe("spy", memory=residual(), codec=Spy(0.1), exchange=gather())
    together(2, lambda rank: train(spying, "cuda"))
    assert STREAMS
    assert torch.cuda.default_stream().cuda_stream not in STREAMS


def test_half_precision_with_a_scaler() -> None:
    def one(rank: int) -> tuple[float, float]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 4)).cuda()
        scaler = torch.amp.GradScaler("cuda", init_scale=2.0**40)
        losses = []
        with join(dgc(0.1, momentum=0.9), model, torch.optim.SGD(model.parameters(), lr=0.05), scaler=scaler) as wire:
            for x, y in batches("mlp", 40):
                with torch.autocast("cuda", torch.float16):
                    loss = F.mse_loss(model(x.cuda()).float(), y.cuda())
                scaler.scale(loss).backward()
                wire.step()
                losses.append(float(loss.detach()))
        return losses[0], losses[-1]

    for first, last in together(2, one):
        assert last < first


def through_ddp(chosen: AnyRecipe, steps: int) -> dict[str, Tensor]:
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    model = network("mlp").cuda()
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.0001)
    ddp.register_comm_hook(*ddp_hook(chosen))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    mine = part(dist.get_rank(), dist.get_world_size())
    for x, y in batches("mlp", steps):
        F.mse_loss(ddp(mine(x).cuda()), mine(y).cuda()).backward()
        optimizer.step()
        optimizer.zero_grad()
    KEPT.append(ddp)
    return {name: weight.detach().cpu() for name, weight in model.named_parameters()}


KEPT: list[nn.Module] = []  # DDP's destructor and gloo's threads can wait for each other


@pytest.mark.processes
@pytest.mark.parametrize("name", ["sync-sgd", "one-bit", "powersgd", "dgc", "poseidon"])
def test_a_ddp_hook_on_one_gpu_equals_the_in_process_link(name: str) -> None:
    chosen, workers = RECIPES[name]
    ours = together(workers, lambda rank: train(chosen, "cuda"))
    theirs = processes(workers, through_ddp, chosen, 15, timeout_s=110.0)
    for one, two in zip(ours, theirs, strict=True):
        assert distance(two, one) < 1e-6
