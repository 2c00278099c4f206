"""Payloads that only a device can refuse: asked once for all, refused all the same, and nothing outside is touched."""

from __future__ import annotations

import pytest
import torch

from tests.codecs.common import bucket, encoded
from tightwire.algebra import doubts
from tightwire.algebra.codec import Codec, Payload
from tightwire.algebra.compressor import Composed
from tightwire.algebra.doubts import asked_at_the_end, refuse_if
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At
from tightwire.codecs.qsgd import qsgd
from tightwire.codecs.terngrad import terngrad
from tightwire.codecs.threshold import threshold
from tightwire.memories.nothing import nothing

YES, NO = torch.tensor(True), torch.tensor(False)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """This device answers like a GPU: late."""
    monkeypatch.setattr(doubts, "DEVICES", {"cpu"})


def test_a_device_that_knows_at_once_is_asked_at_once() -> None:
    with asked_at_the_end(), pytest.raises(PayloadError, match="here"):
        refuse_if(YES, "here")


@pytest.mark.usefixtures("slow")
def test_doubts_wait_and_the_first_that_holds_is_raised() -> None:
    reached = []

    def ask() -> None:
        with asked_at_the_end():
            for wrong, text in ((NO, "first"), (YES, "second"), (YES, "third")):
                refuse_if(wrong, text)
                reached.append(text)

    with pytest.raises(PayloadError, match="second"):
        ask()
    assert reached == ["first", "second", "third"]


@pytest.mark.usefixtures("slow")
def test_outside_nothing_waits() -> None:
    with asked_at_the_end():
        pass
    with pytest.raises(PayloadError):
        refuse_if(YES, "now")


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(
    ("codec", "place", "value"),
    [(terngrad(), -1, 255), (terngrad(), 3, 255), (qsgd(4), -1, 255), (qsgd(4), 3, 255), (threshold(0.5), -1, 127)],
    ids=["code", "scale", "level", "norm", "position"],
)
def test_a_wrong_payload_among_others_is_refused_however_late(codec: Codec, place: int, value: int) -> None:
    x = bucket((64,))
    good = encoded(codec, x)[0].payload
    bad = Payload(good.wire.clone())
    bad.wire[place] = value
    whole, out = Composed(nothing(), codec), Bucket.zeros(x.spec)
    whole.expand_(out, [good, good], whole.init(x.spec), At())
    assert bool(out.flat.any())
    with pytest.raises(PayloadError):
        whole.expand_(out, [good, bad, good], whole.init(x.spec), At())
