"""A split model: stages see the weight versions the timetable promises, and the answer is whole."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tightwire.algebra.errors import UsageError
from tightwire.recipes import layerwise, sync_sgd
from tightwire.run.join import join
from tightwire.run.pipeline import Passed
from tightwire.run.together import together
from tightwire.testing.cases import batches, network

STEPS = 8


def deep() -> nn.Sequential:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Linear(6, 6),
        nn.Tanh(),
        nn.Linear(6, 6),
        nn.Dropout(0.3),
        nn.Linear(6, 6),
        nn.BatchNorm1d(6),
        nn.Linear(6, 4),
    )


def run(stages: int, rank: int) -> tuple[list[Passed], list[float], dict[str, Tensor], int]:
    model = deep()
    losses = []
    with join(layerwise(stages), model, torch.optim.SGD(model.parameters(), lr=0.02)) as wire:
        for x, y in batches("mlp", STEPS):
            loss = wire.batch(x, y, F.mse_loss)
            wire.step(loss)
            if loss is not None:
                losses.append(float(loss))
        wire.drain()
        assert wire.pipeline is not None
        trace = wire.pipeline.trace
        sent = wire.ledger.total("tx", "boundary")
    return trace, losses, {name: t.clone() for name, t in model.state_dict().items()}, sent


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_versions_are_as_far_apart_as_the_timetable_says(stages: int) -> None:
    results = together(stages, lambda rank: run(stages, rank))
    for stage, (trace, losses, _, _) in enumerate(results):
        assert [passed.minibatch for passed in trace] == list(range(STEPS)), "the pipe is drained at the end"
        delay = 2 * (stages - 1 - stage)
        for passed in trace[delay:]:
            assert passed.backward_version - passed.forward_version == delay
        assert bool(losses) == (stage == stages - 1), "the last stage knows the loss"


def test_the_answer_is_the_whole_model_on_every_rank() -> None:
    results = together(3, lambda rank: run(3, rank))
    start = deep().state_dict()
    for _, _, state, _ in results:
        for name, tensor in state.items():
            assert torch.equal(tensor, results[0][2][name]), name
    for name in ("0.weight", "2.weight", "4.weight", "6.weight"):
        assert not torch.equal(results[0][2][name], start[name])


def test_boundaries_carry_activations_and_errors() -> None:
    header = 9 * 8
    width, batch = 6, 12
    for _, _, _, sent in together(2, lambda rank: run(2, rank)):
        assert sent == STEPS * 4 * batch * width + header, "only the first message says what it is"


def test_norms_of_the_answer_are_those_of_their_owner() -> None:
    def one(rank: int) -> Tensor:
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, momentum=None), nn.Linear(2, 1))
        nn.init.eye_(model[0].weight)
        nn.init.zeros_(model[0].bias)
        with join(layerwise(2, cuts=(2,)), model, torch.optim.SGD(model.parameters(), lr=0.0)) as wire:
            for _ in range(4):
                wire.batch(torch.tensor([[1.0, 3.0], [3.0, 5.0]]), torch.zeros(2, 1), F.mse_loss)
                wire.step()
        return model[1].running_mean.clone()  # type: ignore[union-attr]

    for mean in together(2, one):
        torch.testing.assert_close(mean, torch.tensor([2.0, 4.0]))


@pytest.mark.parametrize("cuts", [(1, 2), (1, 3)])
def test_a_stage_may_have_no_weights(cuts: tuple[int, ...]) -> None:
    def one(rank: int) -> float:
        first: list[nn.Module] = [nn.Flatten()] if cuts == (1, 3) else []
        model = nn.Sequential(*first, nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
        with join(layerwise(3, cuts=cuts), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
            for _ in range(6):
                wire.batch(torch.ones(2, 2), torch.zeros(2, 1), F.mse_loss)
                wire.step()
        return float(model(torch.ones(1, 2)).detach().abs())

    assert len(set(together(3, one))) == 1


def backward_by_hand() -> tuple[Tensor, Tensor]:
    """Two stages of one weight each, f = (w1·w0·x)²/2 at x = 1; what pipelined back-propagation does to them."""
    w0, w1, rate = 0.5, 2.0, 0.1
    inputs: list[float] = []
    seen: list[tuple[float, float]] = []
    errors: dict[int, float] = {}
    for tick in range(STEPS + 2):
        if tick < STEPS:
            inputs.append(w0)
        if 0 <= tick - 1 < STEPS:
            activation = inputs[tick - 1]
            out = w1 * activation
            errors[tick - 1] = out * w1
            seen.append((w1, out * activation))
        if 0 <= tick - 2 < STEPS:
            w0 -= rate * errors[tick - 2]
        if 0 <= tick - 1 < STEPS:
            w1 -= rate * seen[-1][1]
    return torch.tensor(w0), torch.tensor(w1)


def test_two_stages_do_what_the_equations_say() -> None:
    def one(rank: int) -> tuple[float, float]:
        model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
        with torch.no_grad():
            model[0].weight.fill_(0.5)
            model[1].weight.fill_(2.0)
        with join(layerwise(2), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
            for _ in range(STEPS):
                wire.batch(torch.ones(1, 1), None, lambda out, _: out.square().sum() / 2)
                wire.step()
        return float(model[0].weight.detach()), float(model[1].weight.detach())

    wanted = tuple(map(float, backward_by_hand()))
    for got in together(2, one):
        assert got == pytest.approx(wanted, rel=1e-5)


def test_a_stage_passes_on_one_tensor() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Linear(6, 6)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.w(x), x

    def one(rank: int) -> None:
        model = nn.Sequential(Two(), nn.Linear(6, 4))
        with join(layerwise(2), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
            wire.batch(torch.ones(1, 6), torch.ones(1, 4), F.mse_loss)

    with pytest.raises(UsageError, match="one tensor"):
        together(2, one)


def test_batch_is_forward_and_backward_without_a_split() -> None:
    model = network("mlp")
    with join(sync_sgd(), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
        x, y = batches("mlp", 1)[0]
        loss = wire.batch(x, y, F.mse_loss)
        assert loss is not None
        assert all(p.grad is not None for p in model.parameters())
        wire.step(loss)


def ramp(sizes: list[int], drained: bool) -> dict[str, Tensor]:
    """Minibatches that grow on the way, as in the paper: 256 first, then 1024 (here 4, then 16)."""

    def one(rank: int) -> dict[str, Tensor]:
        torch.manual_seed(7)
        model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 4))
        with join(layerwise(3), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
            for step, size in enumerate(sizes):
                if drained and step and size != sizes[step - 1]:
                    wire.drain()
                    assert wire.pipeline is not None and not wire.pipeline.busy
                wire.batch(torch.randn(size, 6), torch.randn(size, 4), F.mse_loss)
                wire.step()
        return {name: weight.detach().clone() for name, weight in model.named_parameters()}

    return together(3, one)[0]


def test_a_batch_that_grows_finds_an_empty_pipe_after_a_drain() -> None:
    """With one minibatch a phase and a drain between them there is no delay at all: plain SGD."""
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 4))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    sizes = [4, 16, 8, 16]
    for size in sizes:
        F.mse_loss(model(torch.randn(size, 6)), torch.randn(size, 4)).backward()
        sgd.step()
        sgd.zero_grad()
    got = ramp(sizes, drained=True)
    for name, weight in model.named_parameters():
        torch.testing.assert_close(got[name], weight.detach())


def test_batches_of_several_sizes_may_be_in_flight_together() -> None:
    sizes = [4, 4, 16, 16, 5, 16, 4]
    assert not all(
        torch.equal(weight, ramp(sizes, drained=True)[name]) for name, weight in ramp(sizes, drained=False).items()
    )


def test_a_stage_may_skip_its_own_layers() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = nn.Linear(6, 6)

        def forward(self, x: Tensor) -> Tensor:
            return x + torch.relu(self.inside(x))

    def one(rank: int) -> float:
        torch.manual_seed(8)
        model = nn.Sequential(nn.Linear(6, 6), Residual(), nn.Linear(6, 4))
        with join(layerwise(3), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
            for x, y in batches("mlp", STEPS):
                wire.batch(x, y, F.mse_loss)
                wire.step()
        return float(model(torch.ones(1, 6)).detach().sum())

    assert len(set(together(3, one))) == 1


def test_a_stage_whose_results_change_shape_is_refused() -> None:
    class Wavering(nn.Linear):
        count = 0

        def forward(self, x: Tensor) -> Tensor:
            self.count += 1
            return super().forward(x) if self.count < 3 else super().forward(x)[:1]

    def one(rank: int) -> None:
        model = nn.Sequential(Wavering(6, 6), nn.Linear(6, 4))
        with join(layerwise(2), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
            for x, y in batches("mlp", STEPS):
                wire.batch(x, y, F.mse_loss)
                wire.step()

    with pytest.raises(UsageError, match="depend on the shape of their inputs alone"):
        together(2, one)
