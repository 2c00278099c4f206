"""Low rank: exact where the rank is low, the same Q everywhere, the promised bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At
from tightwire.codecs.lowrank import LowRank, lowrank, orthonormal
from tightwire.testing.codecs import decode, encode


def of(matrix: Tensor) -> Bucket:
    return Bucket(matrix.reshape(-1).clone(), Spec.pack([("w", tuple(matrix.shape))]))


def exchange(codec: LowRank, xs: list[Bucket], states: list[State]) -> list[Bucket]:
    """What each worker makes of everybody's payload."""
    results = encode(codec, xs, states).results
    return [decode(codec, results, x.spec, state) for x, state in zip(xs, states, strict=True)]


@given(st.integers(1, 4), st.integers(4, 12), st.integers(4, 12), st.integers(1, 4), st.integers(0, 99))
def test_a_sum_of_low_rank_is_exact(rank: int, rows: int, columns: int, workers: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    left = torch.randn(rows, rank, generator=generator)
    right = torch.randn(workers, rank, columns, generator=generator)
    codec = lowrank(rank, min_shrink=0.0)
    xs = [of(left @ mine) for mine in right]
    states = [codec.init(x.spec) for x in xs]
    assume(torch.linalg.svdvals(right.sum(0) @ states[0]["q"]["w"]).min() > 0.1)  # Q sees all of the row space
    for out in exchange(codec, xs, states):
        torch.testing.assert_close(out["w"], left @ right.sum(0), rtol=0, atol=1e-3)


@pytest.mark.parametrize("shape", [(5, 7), (7, 5), (1, 6), (6, 1), (4, 2, 3, 3)])
def test_full_rank_is_exact(shape: tuple[int, ...]) -> None:
    codec = lowrank(1000, min_shrink=0.0)
    x = of(torch.randn(shape))
    torch.testing.assert_close(exchange(codec, [x], [codec.init(x.spec)])[0]["w"], x["w"], rtol=0, atol=1e-5)


def test_a_matrix_of_higher_rank_is_not_exact() -> None:
    codec = lowrank(2, min_shrink=0.0)
    x = of(torch.randn(8, 8))
    assert (exchange(codec, [x], [codec.init(x.spec)])[0]["w"] - x["w"]).norm() > 0.1


def test_q_is_the_same_on_all_ranks_at_every_step() -> None:
    codec = lowrank(2)
    spec = Spec.pack([("a", (16, 12)), ("b", (16,)), ("c", (10, 20))])
    states = [codec.init(spec) for _ in range(3)]
    seen = [states[0]["q"]["a"].clone()]
    for _ in range(4):
        xs = [Bucket(torch.randn(spec.numel), spec) for _ in states]
        exchange(codec, xs, states)
        for name in ("a", "c"):
            for state in states[1:]:
                assert torch.equal(state["q"][name], states[0]["q"][name])
        seen.append(states[0]["q"]["a"].clone())
    assert all(not torch.equal(one, two) for one, two in pairwise(seen))


def test_the_first_q_depends_on_the_tensors_name_alone() -> None:
    codec = lowrank(2)
    alone, among = Spec.pack([("a", (16, 12))]), Spec.pack([("x", (9, 40)), ("a", (16, 12)), ("b", (16, 12))])
    assert torch.equal(codec.init(alone)["q"]["a"], codec.init(among)["q"]["a"])
    assert not torch.equal(codec.init(among)["q"]["b"], codec.init(among)["q"]["a"])


def test_a_warm_start_leads_to_the_best_approximation() -> None:
    codec = lowrank(2, min_shrink=0.0)
    x = of(torch.randn(10, 8))
    states = [codec.init(x.spec)]
    errors = [float((exchange(codec, [x], states)[0]["w"] - x["w"]).norm()) for _ in range(60)]
    best = float(torch.linalg.svdvals(x["w"])[2:].norm())
    assert errors[0] > best * 1.01
    assert errors[-1] == pytest.approx(best, rel=1e-3)


def test_tensors_that_would_not_shrink_ride_along_exactly() -> None:
    codec = lowrank(1)
    spec = Spec.pack([("w", (20, 20)), ("b", (7,)), ("small", (2, 2)), ("s", ())])
    xs = [Bucket(torch.randn(spec.numel), spec) for _ in range(2)]
    out = exchange(codec, xs, [codec.init(spec) for _ in xs])[0]
    for name in ("b", "small", "s"):
        torch.testing.assert_close(out[name], xs[0][name] + xs[1][name])
    assert list(codec.init(spec)["q"]) == ["w"]


@pytest.mark.parametrize(("rank", "nbytes"), [(1, 4 * (100 + 50)), (3, 4 * 3 * (100 + 50)), (20, 4 * 100 * 50)])
def test_both_factors_together_have_the_published_bytes(rank: int, nbytes: int) -> None:
    codec = lowrank(rank)
    x = of(torch.randn(100, 50))
    met = encode(codec, [x], [codec.init(x.spec)])
    assert met.results[0].payload.nbytes + met.asked_nbytes[0] == nbytes == codec.capacity(x.spec, At())


def test_the_workers_shares_add_up_to_what_all_received() -> None:
    codec = lowrank(2, min_shrink=0.0)
    xs = [of(torch.randn(9, 7)) for _ in range(3)]
    states = [codec.init(x.spec) for x in xs]
    results = encode(codec, xs, states).results
    out = decode(codec, results, xs[0].spec, states[0])
    for encoded in results:
        encoded.sent.subtract_from_(out)
    torch.testing.assert_close(out.flat, torch.zeros_like(out.flat), rtol=0, atol=1e-5)


@given(st.integers(1, 4), st.integers(4, 9), st.integers(0, 99))
def test_bases_are_orthonormal_and_span_the_same(rank: int, rows: int, seed: int) -> None:
    left_BNR = torch.randn(3, rows, rank, generator=torch.Generator().manual_seed(seed))
    basis_BNR = orthonormal(left_BNR)
    torch.testing.assert_close(basis_BNR.mT @ basis_BNR, torch.eye(rank).expand(3, -1, -1), rtol=0, atol=1e-5)
    torch.testing.assert_close(basis_BNR @ (basis_BNR.mT @ left_BNR), left_BNR, rtol=0, atol=1e-4)


@pytest.mark.parametrize("rank", [1, 2])
def test_matrices_of_one_shape_keep_their_own_bases(rank: int) -> None:
    codec = lowrank(rank, min_shrink=0.0)
    shapes = [("a", (6, 5)), ("b", (4, 7)), ("c", (6, 3)), ("d", (6, 5))]
    spec = Spec.pack(shapes)
    x = Bucket(torch.randn(spec.numel), spec)
    together = exchange(codec, [x], [codec.init(spec)])[0]
    for name, shape in shapes:
        own = Spec.pack([(name, shape)])
        alone = exchange(codec, [Bucket(x[name].flatten().clone(), own)], [codec.init(own)])[0]
        torch.testing.assert_close(together[name], alone[name], rtol=0, atol=1e-5)


@pytest.mark.parametrize("rank", [1, 2])
def test_a_matrix_that_was_zero_is_followed_again(rank: int) -> None:
    codec = lowrank(rank, min_shrink=0.0)
    x = of(torch.randn(6, 1) @ torch.randn(1, 5))
    states = [codec.init(x.spec)]
    exchange(codec, [of(torch.zeros(6, 5))], states)
    for _ in range(3):
        out = exchange(codec, [x], states)[0]
    torch.testing.assert_close(out["w"], x["w"], rtol=0, atol=1e-4)


def test_a_zero_matrix_stays_zero() -> None:
    codec = lowrank(2, min_shrink=0.0)
    x = of(torch.zeros(6, 5))
    assert not exchange(codec, [x], [codec.init(x.spec)])[0].flat.any()


def test_a_rank_below_one_is_refused() -> None:
    with pytest.raises(RecipeError, match="rank=0"):
        lowrank(0)
