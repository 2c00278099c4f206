"""DDP with our hook does what `join` does, whatever buckets DDP makes."""

import re
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import tightwire as tw
from tests.worlds import processes
from tightwire.algebra.errors import CheckpointError, JoinError, RecipeError
from tightwire.algebra.recipe import AnyRecipe, forever, phases
from tightwire.algebra.world import groups_of
from tightwire.codecs.topk import topk
from tightwire.exchanges.allreduce import multi_ring, ring, tree
from tightwire.exchanges.gather import gather
from tightwire.memories.residual import residual
from tightwire.recipes import CATALOGUE, dgc, one_bit, poseidon, powersgd, recipe, sync_sgd
from tightwire.run.ddp import ddp_hook
from tightwire.run.ddp_state import HookState
from tightwire.run.join import join

STEPS = 7
RECIPES: dict[str, AnyRecipe] = {
    "sync-sgd": sync_sgd(),
    "sync-sgd by ring": sync_sgd(ring()),
    "sync-sgd by tree": sync_sgd(tree()),
    "sync-sgd by rings": sync_sgd(multi_ring()),
    "dgc": dgc(0.1, momentum=0.9),
    "top-k": recipe("top-k", memory=residual(), codec=topk(0.05), exchange=gather()),
    "one-bit": one_bit(),
    "powersgd": powersgd(2),
    "powersgd after a warm-up": powersgd(2, warmup=3),
    "dgc, then dense": phases((4, dgc(0.05, momentum=0.0)), (forever, sync_sgd(ring()))),
    "poseidon": poseidon(),
    "factors only": poseidon("factors"),
    "dgc in tiers": dgc(0.1, momentum=0.9, hosts="tiers", by=groups_of(2)),
}


def network() -> nn.Sequential:
    """Twelve tensors; DDP with buckets of 0.002 MB cuts them into many."""
    torch.manual_seed(5)
    sizes = (20, 40, 30, 30, 24, 16, 4)
    return nn.Sequential(*(layer for n, m in pairwise(sizes) for layer in (nn.Linear(n, m), nn.Tanh())))


def batch(step: int, rank: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    x = torch.randn(8, 20, generator=generator)
    return x, torch.sin(x.sum(-1, keepdim=True)).expand(-1, 4)


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def open_world() -> None:
    """Nobody closes it: DDP's destructor and that of gloo's threads can wait for each other for ever."""
    if not dist.is_initialized():
        dist.init_process_group("gloo")


def joined(chosen: AnyRecipe) -> tuple[dict[str, Tensor], int]:
    model = network()
    with join(chosen, model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
        for step in range(STEPS):
            wire.epochs = step / 2
            F.mse_loss(model(batch(step, wire.rank)[0]), batch(step, wire.rank)[1]).backward()
            wire.step()
    return weights(model), wire.ledger.tx_bytes


def wrapped(
    chosen: AnyRecipe, cap_mb: float = 0.002
) -> tuple[DistributedDataParallel, HookState, torch.optim.Optimizer]:
    model = network()
    ddp = DistributedDataParallel(model, bucket_cap_mb=cap_mb)
    state, hook = ddp_hook(chosen)
    ddp.register_comm_hook(state, hook)
    return ddp, state, torch.optim.SGD(model.parameters(), lr=0.1)


def run(
    ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, steps: range, state: HookState | None = None
) -> None:
    for step in steps:
        if state is not None:
            state.epochs = step / 2
        x, y = batch(step, dist.get_rank())
        F.mse_loss(ddp(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


def both(chosen: AnyRecipe) -> tuple[dict[str, Tensor], dict[str, Tensor], int, int, int]:
    open_world()
    with_join, sent = joined(chosen)
    ddp, state, optimizer = wrapped(chosen)
    buckets = set()
    take = state.take
    state.take = lambda bucket: (buckets.add(bucket.index()), take(bucket))[1]  # type: ignore[method-assign]
    run(ddp, optimizer, range(STEPS))
    found = weights(ddp.module)
    state.close()
    return with_join, found, len(buckets), sent, state.ledger.tx_bytes


@pytest.mark.processes
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("name", RECIPES)
def test_ddp_with_the_hook_is_join(name: str, workers: int) -> None:
    results = processes(workers, both, RECIPES[name])
    for with_join, with_ddp, buckets, sent_by_join, sent_by_hook in results:
        assert buckets > 3, "DDP must make several buckets, or this proves little"
        assert sent_by_hook == sent_by_join > 0
        for key, weight in with_join.items():
            assert torch.equal(with_ddp[key], weight), f"{key} differs by {(with_ddp[key] - weight).abs().max():.1e}"
            assert torch.equal(with_ddp[key], results[0][1][key]), "ranks disagree"


CODECS = ["half", "fixed-point", "qsgd", "terngrad", "ef-sign", "top-k", "strom", "dgc"]


def every_codec() -> dict[str, float]:
    """How far DDP with the hook is from `join`, for recipes with their defaults."""
    open_world()
    apart = {}
    for name in CODECS:
        wanted, _ = joined(CATALOGUE[name].make())
        ddp, state, optimizer = wrapped(CATALOGUE[name].make())
        run(ddp, optimizer, range(STEPS), state)
        found = weights(ddp.module)
        apart[name] = max(float((found[key] - weight).abs().max()) for key, weight in wanted.items())
    return apart


@pytest.mark.processes
def test_every_gradient_codec_of_the_catalogue() -> None:
    for apart in processes(2, every_codec):
        assert apart == dict.fromkeys(CODECS, 0.0)


Saved = tuple[dict[str, Tensor], dict[str, object]]


def first_half(chosen: AnyRecipe, cap_mb: float) -> tuple[Saved, dict[str, Tensor]]:
    """What is there after half of the steps, and the weights at the end."""
    open_world()
    ddp, state, optimizer = wrapped(chosen, cap_mb)
    run(ddp, optimizer, range(STEPS // 2))
    saved = weights(ddp.module), state.state_dict()
    run(ddp, optimizer, range(STEPS // 2, STEPS))
    return saved, weights(ddp.module)


def second_half(chosen: AnyRecipe, cap_mb: float, saved: list[Saved]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What is owed after loading all ranks' states, and the weights at the end."""
    open_world()
    ddp, state, optimizer = wrapped(chosen, cap_mb)
    ddp.module.load_state_dict(saved[0][0])
    same_world = len(saved) == dist.get_world_size()
    state.load_state_dict(saved[dist.get_rank()][1] if same_world else [each[1] for each in saved])
    state.meet(ddp)
    owed = state.state_dict()["lanes"]["memory"]["residual"]
    assert state.clock == STEPS // 2
    run(ddp, optimizer, range(STEPS // 2, STEPS))
    return owed, weights(ddp.module)


@pytest.mark.processes
@pytest.mark.parametrize("name", ["dgc", "one-bit", "powersgd", "dgc, then dense"])
def test_state_goes_on_with_other_buckets(name: str) -> None:
    before = processes(2, first_half, RECIPES[name], 0.002)
    after = processes(2, second_half, RECIPES[name], 0.01, [saved for saved, _ in before])
    for (_, wanted), (_, found) in zip(before, after, strict=True):
        for key, weight in wanted.items():
            assert torch.equal(found[key], weight), key


@pytest.mark.processes
def test_what_is_owed_survives_another_number_of_processes() -> None:
    before = [saved for saved, _ in processes(3, first_half, RECIPES["top-k"], 0.002)]
    after = processes(2, second_half, RECIPES["top-k"], 0.002, before)
    for key in before[0][1]["lanes"]["memory"]["residual"]:  # type: ignore[index]
        wanted = sum(state["lanes"]["memory"]["residual"][key] for _, state in before)  # type: ignore[index]
        torch.testing.assert_close(sum(owed[key] for owed, _ in after), wanted)


class Odd(nn.Module):
    """Mixed types, a layer that only rank 0 uses, and one that nobody does."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.brief = nn.Linear(20, 20).bfloat16()
        self.first, self.sometimes, self.never = nn.Linear(20, 20), nn.Linear(20, 20), nn.Linear(3, 3)
        self.last = nn.Linear(20, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x) + self.brief(x.bfloat16()).float())
        if dist.get_rank() == 0:
            x = x + self.sometimes(x)
        out: Tensor = self.last(x)
        return out


def odd() -> tuple[list[float], dict[str, Tensor]]:
    open_world()
    model = Odd()
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.001, find_unused_parameters=True)
    ddp.register_comm_hook(*ddp_hook(powersgd(1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    losses, before = [], model.never.weight.detach().clone()
    for _ in range(6):
        x, y = batch(0, dist.get_rank())
        for micro in (True, False):
            with ddp.no_sync() if micro else nullcontext():
                loss = F.mse_loss(ddp(x), y) / 2
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert torch.equal(model.never.weight, before), "nobody used it"
    return losses, weights(model)


@pytest.mark.processes
def test_unused_layers_mixed_types_and_accumulation() -> None:
    (losses, one), (_, two) = processes(2, odd)
    assert losses[-1] < losses[0]
    assert all(torch.equal(weight, two[name]) for name, weight in one.items())


def refused(kind: str) -> str:
    """What is said of something that cannot be."""
    open_world()
    rank = dist.get_rank()
    try:
        match kind:
            case "nan":
                ddp, _, optimizer = wrapped(RECIPES["top-k"])
                run(ddp, optimizer, range(2))
                (ddp(batch(0, rank)[0]).sum() * float("nan")).backward()
            case "recipes differ":
                wrapped(sync_sgd(ring() if rank == 0 else tree()))
            case "momentum":
                model = network()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
                ddp_hook(dgc(momentum=0.9), model=DistributedDataParallel(model), optimizer=optimizer)
            case "group":
                groups = [dist.new_group([0]), dist.new_group([1])]
                ddp_hook(sync_sgd(), model=DistributedDataParallel(network(), process_group=groups[rank]))
            case "other recipe":
                _, state, _ = wrapped(sync_sgd())
                state.load_state_dict({**state.state_dict(), "recipe": "another"})
            case "other world":
                _, state, _ = wrapped(sync_sgd())
                state.load_state_dict({**state.state_dict(), "workers": 7})
    except (RuntimeError, JoinError, CheckpointError) as error:
        return str(error)
    return ""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("nan", r"the gradient of '.*' holds NaN or infinity"),
        ("recipes differ", r"rank \d has another recipe"),
        ("momentum", r"momentum twice: dgc"),
        ("group", r"among 1 of 2 processes.*without process_group"),
        ("other recipe", r"the state is of another, this hook runs sync-sgd"),
        ("other world", r"one of 7 ranks and there are now 2; give .* all of them"),
    ],
)
def test_what_cannot_be_is_said(kind: str, says: str) -> None:
    for said in processes(2, refused, kind):
        assert re.search(says, said), said


@pytest.mark.parametrize("name", ["local-sgd", "diloco", "gossip-pull", "asgd", "layerwise", "lars", "large-minibatch"])
def test_recipes_that_are_more_than_gradients_are_refused(name: str) -> None:
    with pytest.raises(RecipeError, match=r"use tw\.join\(recipe, model, optimizer\)"):
        ddp_hook(CATALOGUE[name].make())


def test_it_needs_a_process_group() -> None:
    with pytest.raises(JoinError, match="init_process_group"):
        tw.ddp_hook(sync_sgd())


def documented() -> None:
    page = (Path(__file__).parents[2] / "docs/ddp.md").read_text(encoding="utf-8")
    script = page.split("```python\n")[1].split("```")[0]
    exec(compile(script, "docs/ddp.md", "exec"), KEPT)


KEPT: dict[str, object] = {"__name__": "__main__"}  # like a script's own names, until the process ends


@pytest.mark.processes
def test_the_documented_script_runs() -> None:
    processes(2, documented)
