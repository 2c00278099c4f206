"""The largest of every chunk: as many of each, two bits a value, and means that are means."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.codecs.common import bucket, encoded, rebuilt
from tightwire.algebra.codec import Payload
from tightwire.algebra.errors import PayloadError, RecipeError
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.chunked import chunked
from tightwire.codecs.picks import Block, Picks
from tightwire.testing.strategies import buckets


def test_every_chunk_sends_its_largest() -> None:
    x = Bucket(torch.tensor([1.0, -9, 2, 8, 0.1, 0.3, -0.2, 0.4, 5, 6]), Spec.pack([("w", (10,))]))
    out = rebuilt(chunked(0.5, chunk=4, values="float32"), x).flat
    torch.testing.assert_close(out, torch.tensor([0.0, -9, 0, 8, 0, 0.3, 0, 0.4, 0, 6]))


@given(buckets(), st.sampled_from([0.1, 0.5, 1.0]), st.sampled_from([3, 16, 4096]))
def test_at_most_the_share_of_the_energy_that_is_not_picked_is_left(x: Bucket, density: float, chunk: int) -> None:
    out = rebuilt(chunked(density, chunk=chunk, values="float32"), x)
    energy = float(x.flat.double().square().sum())
    left = float((x.flat - out.flat).double().square().sum())
    assert left <= (1 - density) * energy + 1e-9 * energy


def test_two_bits_are_a_sign_and_one_of_two_means() -> None:
    x = Bucket(torch.tensor([1.0, -1.0, 2.0, -8.0, 6.0, 0.0]), Spec.pack([("w", (6,))]))
    out = rebuilt(chunked(1.0, chunk=6), x).flat
    assert out.tolist() == [1.0, -1.0, 1.0, -7.0, 7.0, 1.0]  # the mean magnitude is 3: 1, 1, 2, 0 and 8, 6


def test_two_bits_conserve_the_sum_of_magnitudes() -> None:
    x = bucket((40, 40))
    picked = rebuilt(chunked(0.1, chunk=256, values="float32"), x).flat.abs().sum()
    assert float(rebuilt(chunked(0.1, chunk=256), x).flat.abs().sum()) == pytest.approx(float(picked), rel=0.01)


def test_a_pick_takes_under_two_bytes() -> None:
    x = bucket((256, 256), (64,))
    codec = chunked(0.02)
    picks = 16 * 82 + 2
    nbytes = encoded(codec, x)[0].payload.nbytes
    assert nbytes == 4 * 17 + -(-picks * 2 // 8) + picks + -(-picks * 4 // 8) == codec.capacity(x.spec, At())
    assert nbytes / picks < 1.82


@pytest.mark.parametrize("index", [[3, 3], [5, 1], [1, 7]], ids=str)
def test_positions_that_do_not_ascend_in_their_chunk_are_refused(index: list[int]) -> None:
    blocks = [Block(0, 1, 7, 2)]
    wire, _ = Picks("float32", 8).write([torch.tensor([index])], [torch.ones(1, 2)], torch.device("cpu"))
    with pytest.raises(PayloadError, match="ascend"):
        Picks("float32", 8).read(Payload(wire), blocks, "test")


@pytest.mark.parametrize("wrong", [{"density": 0.0}, {"chunk": 0}, {"chunk": 70000}, {"values": "int4"}], ids=str)
def test_what_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(RecipeError):
        chunked(**wrong)  # type: ignore[arg-type]
