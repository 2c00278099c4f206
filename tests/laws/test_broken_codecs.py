"""The codecs' suite can fail: codecs that are broken on purpose, each caught by the law that it breaks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from tests.laws.breaking import holds, name_of, nobody, unshrunk
from tightwire.algebra.codec import Codec, Combines, DenseSent, Encoded, Payload, drive, one_round
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At
from tightwire.codecs.bitpack import GAP_SPAN
from tightwire.codecs.dense import Dense
from tightwire.codecs.fixed import Fixed
from tightwire.codecs.qsgd import Qsgd
from tightwire.codecs.randomk import RandomK
from tightwire.codecs.topk import TopK
from tightwire.testing import codecs

pytestmark = pytest.mark.usefixtures(unshrunk.__name__)

LAWS = (
    codecs.decoded_is_sent, codecs.payload_within_capacity, codecs.input_untouched, codecs.same_again,
    codecs.grain_invisible, codecs.sums_add, codecs.state_survives, codecs.exact_if_identity, codecs.garbage_refused,
    codecs.right_on_average,
)  # fmt: skip


class Boastful(TopK):
    """Says that it sent everything, and sent the largest."""

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        return Encoded(drive(super().encode(x, state, at), nobody).payload, DenseSent(x.flat.clone()))


class TooLong(Dense):
    """Appends an element for which there is no room."""

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        return Encoded(Payload(torch.cat([x.flat, x.flat.new_zeros(1)])), DenseSent(x.flat.clone()))

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        out.flat.add_(payload.wire[:-1])


@dataclass(frozen=True)
class Numbered(Dense):
    """Numbers its payloads."""

    combines: ClassVar[Combines] = "gather"
    identity: ClassVar[bool] = False
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        number = x.flat.new_tensor([next(self.numbers)])
        return Encoded(Payload(torch.cat([x.flat, number])), DenseSent(x.flat.clone()))

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        if payload.wire.numel() != out.flat.numel() + 1:
            raise PayloadError("not a bucket and its number")
        out.flat.add_(payload.wire[:-1])

    def capacity(self, spec: Spec, at: At) -> int:
        return spec.nbytes + spec.dtype.itemsize


@dataclass(frozen=True)
class Squared(Dense):
    """Sends squares, whose sum is not the square of the sum."""

    identity: ClassVar[bool] = False

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        return Encoded(Payload(x.flat * x.flat.abs()), DenseSent(x.flat.clone()))

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        out.flat.add_(payload.wire.sign() * payload.wire.abs().sqrt())


class WholeBucketTopK(TopK):
    """Selects the largest of a bucket instead of each tensor's."""

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        return drive(super().encode(Bucket(x.flat, Spec.pack([("all", (x.flat.numel(),))])), state, at), nobody)


@dataclass(frozen=True)
class RoundsItsInput(Dense):
    """Rounds in place before it sends."""

    identity: ClassVar[bool] = False

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        x.flat.copy_(x.flat.bfloat16())
        return drive(super().encode(x, state, at), nobody)


@dataclass(frozen=True)
class RoundingIdentity(Dense):
    """Rounds what it calls the bucket itself."""

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        rounded = x.flat.bfloat16().float()
        return Encoded(Payload(rounded), DenseSent(rounded))


class Trusting(TopK):
    """Believes every gap."""

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        count = payload.wire.numel() // 6
        gap_T = payload.wire[4 * count : 6 * count].view(torch.int16).long() & (GAP_SPAN - 1)
        for value, index in zip(payload.wire[: 4 * count].view(torch.float32), torch.cumsum(gap_T + 1, 0), strict=True):
            out.flat[index - 1] += value


@dataclass(frozen=True)
class HalfDone(Dense):
    """Refuses a payload after it has added it."""

    combines: ClassVar[Combines] = "gather"

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        values = payload.wire.view(torch.uint8).flatten()
        whole = values[: values.numel() // 4 * 4].view(torch.float32)[: out.flat.numel()].nan_to_num()
        out.flat[: whole.numel()] += whole
        if values.numel() != out.spec.nbytes:
            raise PayloadError("not a bucket")


@dataclass(frozen=True)
class OwnMind(Dense):
    """Keeps state that is different on every rank."""

    def init(self, spec: Spec) -> State:
        return {"seen": Bucket.zeros(spec)}

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        for name, seen in state["seen"].items():
            seen.copy_(x[name])
        return drive(super().encode(x, state, at), nobody)


@dataclass(frozen=True)
class RoundsDown(Fixed):
    """Drops what lies between two steps, and says that it rounds at random."""

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        floor = Bucket(self.expected(x, at).div(self.step).floor().mul(self.step), x.spec)
        return drive(super().encode(floor, state, at), nobody)


@dataclass(frozen=True)
class Timid(RandomK):
    """Sends elements as they are, and says that it makes up for those it leaves out."""

    def expected(self, x: Bucket, at: At) -> Tensor:
        return x.flat


@dataclass(frozen=True)
class Loaded(Qsgd):
    """Draws from dice that fall on one side a little more often."""

    @one_round
    def encode(self, x: Bucket, state: State, at: At) -> Encoded:
        return drive(super().encode(Bucket(x.flat * 1.02, x.spec), state, at), nobody)


@pytest.mark.parametrize(
    ("codec", "broken"),
    [
        (Boastful(0.3), {"decoded_is_sent"}),
        (TooLong(), {"payload_within_capacity"}),
        (Numbered(), {"same_again", "state_survives"}),
        (Squared(), {"decoded_is_sent", "sums_add"}),
        (WholeBucketTopK(0.3), {"grain_invisible"}),
        (RoundsItsInput(), {"input_untouched"}),
        (RoundingIdentity(), {"exact_if_identity"}),
        (HalfDone(), {"garbage_refused"}),
        (OwnMind(), {"state_survives"}),
        (RoundsDown(2, 6), {"right_on_average"}),
        (Timid(0.3), {"right_on_average"}),
        (Loaded(), {"right_on_average"}),
    ],
    ids=name_of,
)
def test_a_broken_codec_is_caught_by_the_law_it_breaks(codec: Codec, broken: set[str]) -> None:
    with pytest.raises(AssertionError):
        codecs.check_all(codec)
    assert {law.__name__ for law in LAWS if not holds(law, codec)} == broken


def test_a_codec_that_believes_garbage_does_not_pass() -> None:
    with pytest.raises((AssertionError, IndexError)):
        codecs.check_all(Trusting(0.3))
    with pytest.raises((AssertionError, IndexError)):
        codecs.garbage_refused(Trusting(0.3))
