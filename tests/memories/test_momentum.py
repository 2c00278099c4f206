"""Momentum correction against dense momentum SGD, on a fixed stream of gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tightwire.algebra.codec import Codec, SparseSent
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.memory import bucket_of
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At, World
from tightwire.codecs.dense import dense
from tightwire.codecs.onebit import onebit
from tightwire.codecs.topk import topk
from tightwire.memories.momentum import MomentumCorrection, momentum_correction
from tightwire.testing.codecs import decode, encode

SPEC = Spec.pack([("w", (6, 5)), ("b", (6,))])
STEPS, LR, MOMENTUM = 30, 0.1, 0.9


def stream(workers: int, seed: int) -> Tensor:
    """Gradients of every step and worker, each already divided by the number of workers."""
    return torch.randn(STEPS, workers, SPEC.numel, generator=torch.Generator().manual_seed(seed)) / workers


def sgd(gradients: Tensor, momentum: float) -> list[Tensor]:
    """The weights after every step of torch's own SGD on the summed gradients."""
    weight = nn.Parameter(torch.zeros(SPEC.numel))
    optimizer = torch.optim.SGD([weight], lr=LR, momentum=momentum)
    path = []
    for gradient in gradients.sum(1):
        weight.grad = gradient.clone()
        optimizer.step()
        path.append(weight.detach().clone())
    return path


def compressed(memory: MomentumCorrection, codec: Codec, gradients: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The weights and what each worker owes after every step; the receiver is plain SGD."""
    workers = gradients.shape[1]
    weight, states = torch.zeros(SPEC.numel), [memory.init(SPEC) for _ in range(workers)]
    path = []
    for step in gradients:
        ats = [At(world=World(rank, workers)) for rank in range(workers)]
        values = [memory.before(Bucket(g.clone(), SPEC), s, at) for g, s, at in zip(step, states, ats, strict=True)]
        results = encode(codec, values, [{}] * workers).results
        total = decode(codec, results, SPEC, {})
        for rank in range(workers):
            memory.after(values[rank], results[rank].sent, total, states[rank], ats[rank])
        weight = weight - LR * total.flat
        path.append((weight, torch.stack([bucket_of(state, "residual").flat for state in states])))
    return path


@given(
    st.sampled_from([topk(0.01), topk(0.1), topk(0.5), topk(1.0), onebit(), dense()]),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.5, 0.9]),
    st.integers(0, 99),
)
def test_without_masking_the_weights_less_what_is_owed_follow_momentum_sgd(
    codec: Codec, workers: int, momentum: float, seed: int
) -> None:
    gradients = stream(workers, seed)
    path = compressed(momentum_correction(momentum, masking="off"), codec, gradients)
    for (weight, owed), wanted in zip(path, sgd(gradients, momentum), strict=True):
        torch.testing.assert_close(weight - LR * owed.sum(0), wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("codec", [topk(1.0), dense()], ids=str)
def test_at_density_one_without_masking_the_path_is_that_of_momentum_sgd(codec: Codec) -> None:
    gradients = stream(3, 1)
    path = compressed(momentum_correction(MOMENTUM, masking="off"), codec, gradients)
    for (weight, owed), wanted in zip(path, sgd(gradients, MOMENTUM), strict=True):
        torch.testing.assert_close(weight, wanted, rtol=0, atol=1e-5)
        assert not owed.any()


@pytest.mark.parametrize("codec", [topk(1.0), dense()], ids=str)
def test_at_density_one_with_masking_the_path_is_that_of_plain_sgd(codec: Codec) -> None:
    gradients = stream(3, 1)
    path = compressed(momentum_correction(MOMENTUM), codec, gradients)
    for (weight, _), wanted in zip(path, sgd(gradients, 0.0), strict=True):
        torch.testing.assert_close(weight, wanted, rtol=0, atol=1e-5)
    assert not torch.allclose(path[-1][0], sgd(gradients, MOMENTUM)[-1], atol=1e-2)


def test_with_masking_a_sparse_path_leaves_that_of_momentum_sgd() -> None:
    gradients = stream(2, 1)
    weight, owed = compressed(momentum_correction(MOMENTUM), topk(0.3), gradients)[-1]
    assert not torch.allclose(weight - LR * owed.sum(0), sgd(gradients, MOMENTUM)[-1], atol=1e-2)


@pytest.mark.parametrize(("masking", "velocity"), [("where_sent", [1.0, 0.0, 3.0]), ("off", [1.0, 2.0, 3.0])])
def test_masking_forgets_the_velocity_of_what_was_sent_only(masking: str, velocity: list[float]) -> None:
    spec = Spec.pack([("w", (3,))])
    memory = MomentumCorrection(0.5, masking)  # type: ignore[arg-type]
    state = memory.init(spec)
    x = Bucket(torch.tensor([1.0, 2.0, 3.0]), spec)
    memory.after(memory.before(x, state, At()), SparseSent(torch.tensor([1]), torch.tensor([2.0])), x, state, At())
    assert state["velocity"]["w"].tolist() == velocity
    assert memory.owed(state)["w"].tolist() == [1.0, 0.0, 3.0]


def test_the_velocity_and_its_sum_follow_the_equations() -> None:
    spec = Spec.pack([("w", (1,))])
    memory = momentum_correction(0.5, masking="off")
    state = memory.init(spec)
    values = [memory.before(Bucket(torch.tensor([g]), spec), state, At()).flat.item() for g in (1.0, 1.0, 2.0)]
    assert values == [1.0, 1.0 + 1.5, 1.0 + 1.5 + 2.75]


def test_a_refund_is_owed_again() -> None:
    spec = Spec.pack([("w", (2,))])
    memory = momentum_correction()
    state = memory.init(spec)
    x, sent = Bucket(torch.tensor([1.0, 5.0]), spec), SparseSent(torch.tensor([1]), torch.tensor([5.0]))
    memory.after(memory.before(x, state, At()), sent, x, state, At())
    memory.refund(sent, state)
    assert memory.owed(state)["w"].tolist() == [1.0, 5.0]


@pytest.mark.parametrize("momentum", [-0.1, 1.0, 1.5])
def test_a_momentum_outside_its_range_is_refused(momentum: float) -> None:
    with pytest.raises(RecipeError, match=f"momentum_correction\\({momentum}\\)"):
        momentum_correction(momentum)
