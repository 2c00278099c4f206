"""Threshold: ±tau for who crossed it, once a step, in 32-bit words or fewer bits, never more than allowed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.codecs.common import bucket, encoded, rebuilt
from tightwire.algebra.codec import Payload
from tightwire.algebra.errors import PayloadError, RecipeError
from tightwire.algebra.memory import bucket_of
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.threshold import Gaps, Threshold, one_by_one, threshold, together
from tightwire.memories.residual import residual
from tightwire.testing.strategies import buckets

both = pytest.mark.parametrize("gaps", ["words", "rice"])


@both
@given(x=buckets(), tau=st.floats(0.01, 2.0))
def test_who_crossed_sends_tau_and_nobody_else(gaps: Gaps, x: Bucket, tau: float) -> None:
    out = rebuilt(threshold(tau, most=1.0, gaps=gaps), x).flat
    wanted = torch.where(x.flat > tau, tau, torch.where(x.flat < -tau, -tau, 0.0))
    torch.testing.assert_close(out, wanted.to(out.dtype))


def test_a_word_is_the_position_and_a_sign() -> None:
    x = Bucket(torch.tensor([0.0, 2.0, -2.0, 0.0, 3.0]), Spec.pack([("w", (5,))]))
    words = encoded(threshold(1.0, most=1.0), x)[0].payload.wire.view(torch.int32)
    assert words.tolist() == [1 << 1, 2 << 1 | 1, 4 << 1]


@both
def test_nothing_is_lost_over_many_steps(gaps: Gaps) -> None:
    codec, memory, spec = threshold(0.8, gaps=gaps), residual(), Spec.pack([("w", (12, 9)), ("b", (30,))])
    state, total = memory.init(spec), torch.zeros(spec.numel, dtype=torch.float64)
    stream = torch.randn(60, spec.numel, generator=torch.Generator().manual_seed(4))
    for gradient in stream:
        value = memory.before(Bucket(gradient.clone(), spec), state, At())
        total += rebuilt(codec, value).flat.double()
        memory.after(value, encoded(codec, value)[0].sent, value, state, At())
    owed = bucket_of(state, "residual").flat.double()
    torch.testing.assert_close(total + owed, stream.double().sum(0), rtol=0, atol=1e-4)


@both
def test_the_largest_go_first_where_not_all_may(gaps: Gaps) -> None:
    x = Bucket(torch.tensor([5.0, -9.0, 2.0, 7.0, 3.0, -1.0, 8.0, 2.5, 2.6, 2.7]), Spec.pack([("w", (10,))]))
    assert torch.nonzero(rebuilt(threshold(1.0, most=0.3, gaps=gaps), x).flat).flatten().tolist() == [1, 3, 6]


@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=6), most=st.integers(1, 20), seed=st.integers(0, 99))
def test_all_tensors_together_choose_whom_each_alone_would(sizes: list[int], most: int, seed: int) -> None:
    flat_N = torch.randint(-6, 7, (sum(sizes),), generator=torch.Generator().manual_seed(seed)).float()  # many equals
    crossed_K = torch.nonzero(flat_N.abs() > 1).flatten()
    begin_S1 = torch.searchsorted(crossed_K, torch.tensor([0, *sizes]).cumsum(0))
    most_S = torch.tensor([min(size, most) for size in sizes])
    chosen = together(flat_N, crossed_K, begin_S1, most_S)
    assert torch.equal(chosen, one_by_one(flat_N, crossed_K, begin_S1, most_S))
    assert torch.equal(torch.searchsorted(chosen, torch.tensor([0, *sizes]).cumsum(0)).diff(),
                       torch.minimum(begin_S1.diff(), most_S))  # fmt: skip


@given(numel=st.integers(1, 5000), most=st.floats(0.01, 1.0), share=st.floats(0.0, 1.0), seed=st.integers(0, 99))
def test_rice_coded_payloads_stay_within_their_capacity(numel: int, most: float, share: float, seed: int) -> None:
    codec, x = threshold(1.0, most=most, gaps="rice"), Bucket.zeros(Spec.pack([("w", (numel,))]))
    x.flat[torch.rand(numel, generator=torch.Generator().manual_seed(seed)) < share] = 2.0
    assert encoded(codec, x)[0].payload.nbytes <= codec.capacity(x.spec, At())


@pytest.mark.parametrize("numel", [1000, 100_000])
def test_rice_coded_payloads_stay_within_their_capacity_at_every_count(numel: int) -> None:
    codec, spec = threshold(1.0, gaps="rice"), Spec.pack([("w", (numel,))])
    for count in {*range(0, numel // 20, max(1, numel // 400)), numel // 20}:
        x = Bucket.zeros(spec)
        x.flat[numel - count :] = 2.0  # the first gap is as long as can be
        assert encoded(codec, x)[0].payload.nbytes <= codec.capacity(spec, At())


def test_rice_takes_a_third_of_the_words() -> None:
    x = bucket((1000, 100))
    sizes = [encoded(threshold(3.0, gaps=gaps), x)[0].payload.nbytes for gaps in ("words", "rice")]
    assert sizes[1] < sizes[0] / 2.4


def refused(codec: Threshold, x: Bucket, wire: torch.Tensor) -> None:
    out = Bucket.zeros(x.spec)
    with pytest.raises(PayloadError):
        codec.decode_(out, Payload(wire), {}, At())
    assert not out.flat.any()


@pytest.mark.parametrize("words", [[5 << 1], [1 << 1, 1 << 1], [3 << 1, 2 << 1], [-2]], ids=str)
def test_words_that_do_not_ascend_within_the_bucket_are_refused(words: list[int]) -> None:
    refused(threshold(1.0, most=1.0), bucket((5,)), torch.tensor(words, dtype=torch.int32).view(torch.uint8))


@both
def test_more_than_may_be_sent_is_refused(gaps: Gaps) -> None:
    x = bucket((100,))
    wire = encoded(threshold(0.01, most=1.0, gaps=gaps), x)[0].payload.wire
    refused(threshold(0.01, most=0.05, gaps=gaps), x, wire)


@pytest.mark.parametrize("wrong", [{"tau": 0.0}, {"tau": 1.0, "most": 0.0}, {"tau": 1.0, "gaps": "huffman"}], ids=str)
def test_what_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(RecipeError):
        threshold(**wrong)  # type: ignore[arg-type]
