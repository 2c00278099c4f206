"""Fading error feedback: what was sent leaves it, what was not is forgotten a little at every step."""

from __future__ import annotations

import pytest
import torch

from tightwire import kernels
from tightwire.algebra.codec import SparseSent
from tightwire.algebra.compressor import Composed
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.topk import topk
from tightwire.memories.fading import fading
from tightwire.memories.residual import residual


def test_what_is_owed_fades_and_what_is_sent_leaves_it() -> None:
    memory, spec = fading(0.5), Spec.pack([("w", (2,))])
    state = memory.init(spec)
    sent = SparseSent(torch.tensor([1]), torch.tensor([4.0]))
    first = memory.before(Bucket(torch.tensor([8.0, 4.0]), spec), state, At())
    memory.after(first, sent, first, state, At())
    assert memory.owed(state)["w"].tolist() == [8.0, 0.0]
    assert memory.before(Bucket(torch.tensor([1.0, 2.0]), spec), state, At()).flat.tolist() == [5.0, 2.0]


def test_what_is_never_sent_settles_at_the_mean_over_one_minus_decay() -> None:
    memory, spec = fading(0.9), Spec.pack([("w", (1,))])
    state, none = memory.init(spec), SparseSent(torch.empty(0, dtype=torch.int64), torch.empty(0))
    for _ in range(200):
        value = memory.before(Bucket(torch.ones(1), spec), state, At())
        memory.after(value, none, value, state, At())
    assert float(memory.owed(state)["w"]) == pytest.approx(10.0, rel=1e-3)


@pytest.mark.parametrize("decay", [0.0, -0.5, 1.1])
def test_a_share_that_is_none_is_refused(decay: float) -> None:
    with pytest.raises(RecipeError, match="decay"):
        fading(decay)


def test_without_fading_it_is_the_residual() -> None:
    spec = Spec.pack([("w", (40,))])
    one, two = fading(1.0), residual()
    states = one.init(spec), two.init(spec)
    for seed in range(5):
        x = torch.randn(40, generator=torch.Generator().manual_seed(seed))
        values = [
            memory.before(Bucket(x.clone(), spec), state, At())
            for memory, state in zip((one, two), states, strict=True)
        ]
        assert torch.equal(values[0].flat, values[1].flat)
        sent = SparseSent(torch.tensor([seed]), values[0].flat[seed : seed + 1].clone())
        for memory, value, state in zip((one, two), values, states, strict=True):
            memory.after(value, sent, value, state, At())


def test_no_kernel_takes_it_for_a_residual() -> None:
    assert isinstance(kernels.find(fading(), topk(0.01), torch.device("cpu")), Composed)
