"""Sufficient factors: exact, refused when they are not the gradient, and used when they are cheaper."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tightwire.algebra.codec import Encoded
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.tensors import Bucket, Outer, Segment, Spec
from tightwire.algebra.world import At, World
from tightwire.codecs.factors import Factors, factors, multiple
from tightwire.testing.meeting import Met, meet

N, M = 60, 40


def spec() -> Spec:
    return Spec.pack([("w", (N, M)), ("b", (N,))])


def worker(seed: int, samples: int, scale: float = 0.25) -> Bucket:
    """A gradient that is a multiple of its factors, with a bias beside it."""
    generator = torch.Generator().manual_seed(seed)
    outer = Outer(torch.randn(samples, N, generator=generator), torch.randn(samples, M, generator=generator))
    x = Bucket(torch.randn(spec().numel, generator=generator), spec())
    torch.mul(outer.u.T @ outer.v, scale, out=x["w"])
    x.aside["w"] = outer
    return x


def sent(codec: Factors, xs: list[Bucket]) -> Met[Encoded]:
    return meet([codec.encode(x, {}, At(world=World(rank, len(xs)))) for rank, x in enumerate(xs)])


def total(codec: Factors, xs: list[Bucket]) -> Tensor:
    met = sent(codec, xs)
    out = Bucket.zeros(spec())
    payload = met.results[0].payload
    for other in met.results[1:]:
        payload.wire.add_(other.payload.wire)
    codec.decode_(out, payload, {}, At())
    return out.flat


@given(st.lists(st.integers(0, 9), min_size=2, max_size=4), st.sampled_from([1.0, 0.25, 1e-6, -3e4]))
def test_the_sum_of_all_gradients_comes_back(samples: list[int], scale: float) -> None:
    xs = [worker(seed, k, scale) for seed, k in enumerate(samples)]
    wanted = torch.stack([x.flat for x in xs]).sum(0)
    size = float(wanted.abs().max())
    for scheme in ("cheaper", "factors", "dense"):
        torch.testing.assert_close(total(factors(scheme), xs), wanted, rtol=1e-5, atol=1e-6 * size)


@given(st.lists(st.integers(1, 9), min_size=2, max_size=4))
def test_bytes_are_those_of_the_formula(samples: list[int]) -> None:
    workers, most = len(samples), max(samples)
    met = sent(factors(), [worker(seed, k) for seed, k in enumerate(samples)])
    cheaper = workers * most * (N + M) <= 2 * N * M
    for asked, encoded in zip(met.asked_nbytes, met.results, strict=True):
        assert asked == 4 + (4 * most * (N + M) if cheaper else 0)
        assert encoded.payload.nbytes == 4 * N + (0 if cheaper else 4 * N * M)
        assert asked + encoded.payload.nbytes <= factors().capacity(spec(), At(world=World(0, workers)))


@given(st.lists(st.integers(1, 9), min_size=2, max_size=4))
def test_what_was_sent_is_ones_own(samples: list[int]) -> None:
    xs = [worker(seed, k) for seed, k in enumerate(samples)]
    for x, encoded in zip(xs, sent(factors("factors"), xs).results, strict=True):
        rest = Bucket(x.flat.clone(), spec())
        encoded.sent.subtract_from_(rest)
        torch.testing.assert_close(rest.flat, torch.zeros_like(rest.flat), rtol=0, atol=1e-4)


def _twice(x: Bucket) -> None:
    x["w"].add_(torch.randn(N, 1) @ torch.randn(1, M))


def _masked(x: Bucket) -> None:
    x["w"][0, 0] += 0.1


def _other(x: Bucket) -> None:
    x.aside["w"] = worker(99, 3).aside["w"]


def _gone(x: Bucket) -> None:
    x.aside.clear()


@pytest.mark.parametrize("change", [_twice, _masked, _other, _gone])
def test_one_worker_whose_gradient_is_something_else_makes_all_go_densely(change: Callable[[Bucket], None]) -> None:
    torch.manual_seed(0)
    xs = [worker(seed, 4) for seed in range(3)]
    change(xs[1])
    met = sent(factors("factors"), xs)
    assert all(encoded.payload.nbytes == 4 * (N + N * M) for encoded in met.results)
    torch.testing.assert_close(total(factors("factors"), xs), torch.stack([x.flat for x in xs]).sum(0))


@given(st.integers(1, 600), st.integers(1, 600), st.integers(1, 40), st.integers(0, 2**31))
def test_a_true_multiple_is_never_doubted(n: int, m: int, k: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    outer = Outer(torch.randn(k, n, generator=generator), torch.randn(k, m, generator=generator).relu())
    x = (outer.u.T @ outer.v).mul_(0.3)
    scale = multiple(x, outer, generator)
    assert scale is not None
    assert abs(scale - 0.3) < 1e-6 or not x.any()


@pytest.mark.parametrize(("samples", "cheaper"), [(1, True), (512, True), (513, False), (100_000, False)])
def test_the_rule_is_the_published_one_with_a_server_on_every_worker(samples: int, cheaper: bool) -> None:
    workers, n, m = 8, 4096, 4096
    published = 2 * samples * (workers - 1) * (n + m) <= 2 * n * m * (workers + workers - 2) / workers
    assert published == cheaper
    assert factors().by_factors(Segment("fc", 0, (n, m)), samples=samples, workers=workers) == cheaper


def test_alone_nothing_is_asked() -> None:
    met = sent(factors("factors"), [worker(0, 4)])
    assert met.asked_nbytes == [0]


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(RecipeError, match="cheaper, factors, dense"):
        factors("outer")  # type: ignore[arg-type]
