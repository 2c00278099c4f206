"""TernGrad: three levels, a shared scaler, sums on 2P + 1 levels, two bits an element."""

from __future__ import annotations

from math import inf

import pytest
import torch

import tightwire as tw
from tests.codecs.common import bucket, encoded, rebuilt
from tightwire.algebra.codec import Payload
from tightwire.algebra.compressor import Composed
from tightwire.algebra.errors import PayloadError, RecipeError
from tightwire.algebra.memory import bucket_of
from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At, World
from tightwire.codecs.terngrad import terngrad
from tightwire.memories.residual import residual
from tightwire.testing.meeting import meet


def test_every_element_is_one_of_three() -> None:
    x = bucket((40, 30), (50,))
    out = rebuilt(terngrad(inf), x)
    for name, value in x.items():
        assert set(out[name].flatten().tolist()) <= {float(value.abs().max()), 0.0, -float(value.abs().max())}
        assert bool((out[name] * value >= 0).all())


def test_the_variance_is_the_published_one() -> None:
    x = bucket((400,))
    scale = float(x.flat.abs().max())
    drawn = torch.stack([rebuilt(terngrad(inf), x, step).flat for step in range(400)])
    wanted = float((x.flat.abs() * (scale - x.flat.abs())).sum())
    assert float(drawn.var(0).sum()) == pytest.approx(wanted, rel=0.05)


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_the_sum_of_all_lies_on_two_p_plus_one_levels(workers: int) -> None:
    xs = [bucket((20, 10), (30,), seed=seed) for seed in range(workers)]
    codec, total = terngrad(), Bucket.zeros(xs[0].spec)
    for each in encoded(codec, *xs):
        codec.decode_(total, each.payload, {}, At())
    for s, sums in total.segments():
        scale = max(float(codec.expected(x, At())[s.offset : s.offset + s.numel].abs().max()) for x in xs)
        levels = (sums / scale).double()
        torch.testing.assert_close(levels, levels.round(), rtol=0, atol=1e-5)
        assert float(levels.abs().max()) <= workers + 1e-5


def test_a_scaler_of_ones_own_asks_nobody() -> None:
    generator = terngrad(scaler="own").encode(bucket((20,)), {}, At())
    with pytest.raises(StopIteration):
        next(generator)


def test_clipping_at_one_deviation_cuts_the_noise_to_an_eighth_for_a_bias_of_a_seventh() -> None:
    x = bucket((100_000,))
    energy = float(x.flat.square().sum())

    def of_energy(clip: float) -> tuple[float, float]:
        kept = terngrad(clip).expected(x, At())
        noise = float((rebuilt(terngrad(clip), x).flat - kept).square().sum())
        return noise / energy, float((kept - x.flat).square().sum()) / energy

    assert of_energy(2.5) == pytest.approx((1.0, 0.0), abs=0.03)
    assert of_energy(1.0) == pytest.approx((0.115, 0.151), abs=0.01)


def test_outliers_are_clipped_at_so_many_deviations() -> None:
    x = bucket((1000,))
    x.flat[0] = 100.0
    deviation = float(x.flat.square().mean().sqrt())
    clipped = terngrad(2.5).expected(x, At())
    assert float(clipped.max()) == pytest.approx(2.5 * deviation, rel=1e-5)
    assert torch.equal(terngrad(inf).expected(x, At()), x.flat)


@pytest.mark.parametrize("numel", [1, 5])
def test_constant_tensors_are_not_clipped_to_nothing(numel: int) -> None:
    x = bucket((numel,))
    x.flat.fill_(3.0)
    assert rebuilt(terngrad(), x).flat.tolist() == [3.0] * numel


@pytest.mark.parametrize("numel", [1000, 1001, 1003])
def test_two_bits_an_element_and_the_scalers(numel: int) -> None:
    x = bucket((numel,), (8,))
    assert encoded(terngrad(), x)[0].payload.nbytes == -(-(numel + 8) * 2 // 8) + 4 * 2
    assert terngrad().capacity(x.spec, At()) == -(-(numel + 8) * 2 // 8) + 4 * 2 * 2  # the question too


def test_a_code_that_is_none_is_refused() -> None:
    x = bucket((8,))
    wire = encoded(terngrad(), x)[0].payload.wire.clone()
    wire[-1] = 255
    out = Bucket.zeros(x.spec)
    with pytest.raises(PayloadError, match="code"):
        terngrad().decode_(out, Payload(wire), {}, At())
    assert not out.flat.any()


def test_a_clip_of_nothing_is_refused() -> None:
    with pytest.raises(RecipeError, match="clip=0"):
        terngrad(0)


def _owed(clip: float, kind: str, *, workers: int = 4, steps: int = 150) -> float:
    """What all memories hold in the end, of the energy of one step's gradients."""
    x = bucket((2000,), (16,))
    composed = Composed(residual(), terngrad(clip))
    kept = [composed.init(x.spec) for _ in range(workers)]
    random = torch.Generator().manual_seed(0)
    energy = 0.0
    for step in range(steps):
        drawn_PN = torch.randn(workers, x.spec.numel, generator=random)
        if kind == "heavy":
            drawn_PN = drawn_PN**3
        if kind == "uneven":
            drawn_PN[torch.arange(workers) != step % workers] *= 0.01
        energy += float(drawn_PN.square().sum()) / steps
        ats = [At(step=step, world=World(rank, workers)) for rank in range(workers)]
        given = [Bucket(drawn_N.clone(), x.spec) for drawn_N in drawn_PN]
        done = meet([composed.compress(one, k, at) for one, k, at in zip(given, kept, ats, strict=True)]).results
        for sent, k, at in zip(done, kept, ats, strict=True):
            composed.settle(sent, x, k, at)
    return sum(float(bucket_of(k.memory, "residual").flat.square().sum()) for k in kept) / energy


@pytest.mark.parametrize("kind", ["normal", "heavy", "uneven"])
def test_at_one_deviation_a_memory_stays_small(kind: str) -> None:
    assert _owed(1.0, kind) < 2


def test_at_the_papers_clipping_a_memory_grows_without_end_so_the_recipe_refuses_it() -> None:
    assert _owed(2.5, "normal") > 100
    with pytest.raises(RecipeError, match="feedback=False"):
        tw.recipes.terngrad(2.5)
    assert not tw.recipes.terngrad(2.5, feedback=False).memory.keeps
