"""Pushes that are none: refused with a reason, counted under it, and the shard is as if they had not come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.server.shards import flat, push, shard, shard_with_optimizer, wires
from tightwire.algebra.codec import Codec
from tightwire.algebra.errors import PayloadError
from tightwire.codecs.half import half
from tightwire.codecs.onebit import onebit
from tightwire.codecs.topk import topk
from tightwire.schedules.clock import asynchronous
from tightwire.server.inspect import finite

NAN, INF = float("nan"), float("inf")
GOOD = wires(1.0)


def with_value(value: float) -> dict[str, Any]:
    return {**GOOD, "first": torch.where(torch.arange(GOOD["first"].numel()) == 3, value, GOOD["first"].flatten())}


BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "a NaN": ("not finite", {"wires": with_value(NAN)}),
    "an infinity": ("not finite", {"wires": with_value(-INF)}),
    "a tensor too few": ("unknown tensor", {"wires": {"first": GOOD["first"]}}),
    "a tensor nobody knows": ("unknown tensor", {"wires": {**GOOD, "third": GOOD["first"]}}),
    "a row too many": ("shape", {"wires": {**GOOD, "first": torch.zeros(9)}}),
    "another dtype": ("dtype", {"wires": {**GOOD, "first": GOOD["first"].double()}}),
    "integers of the same size": ("dtype", {"wires": {**GOOD, "first": torch.zeros(8, dtype=torch.int32)}}),
    "a push of long ago": ("replayed", {"sequence": 0}),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("make", [shard, shard_with_optimizer], ids=["rule", "optimizer"])
def test_what_is_no_push_leaves_no_trace(name: str, make: Any) -> None:
    reason, changes = BAD[name]
    made = make(asynchronous(), workers=2)
    for number in range(2):
        made.handle(push(0, number, 0.5))
    before, version = flat(made).clone(), made.version
    with pytest.raises(PayloadError) as caught:
        made.handle(replace(push(0, 2), **changes))
    assert caught.value.reason == reason, caught.value
    assert flat(made).equal(before) and made.version == version and made.taken[0][0] == 1 and not made.held
    made.handle(push(0, 2, 0.5))
    assert made.version == version + 1


@pytest.mark.parametrize("codec", [half(), onebit(), topk(0.5)], ids=["half", "onebit", "topk"])
@given(data=st.binary(max_size=64))
def test_random_bytes_in_any_codec_are_a_value_or_a_refusal(codec: Codec, data: bytes) -> None:
    made = shard(asynchronous(), up=codec, workers=1)
    before = flat(made).clone()
    raw = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)
    refused = ""
    try:
        made.handle(replace(push(0, 0), wires=dict.fromkeys(made.center, raw)))
    except PayloadError as error:
        refused = error.reason
    assert refused in ("", "shape", "not finite")
    assert flat(made).equal(before) if refused else torch.isfinite(flat(made)).all()


@given(st.lists(st.floats(width=32), min_size=1, max_size=9))
def test_finite_is_finite(values: list[float]) -> None:
    tensor = torch.tensor(values)
    assert finite(tensor) == bool(torch.isfinite(tensor).all())
