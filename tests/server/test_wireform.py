"""The form of events and replies: everything comes back as it was, and nothing that is malformed gets through."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from math import isnan
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.server.shards import push, shard, shard_with_optimizer
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.schedule import Meta
from tightwire.schedules.clock import asynchronous
from tightwire.server import events
from tightwire.server.events import Center, Enter, Event, Export, Exported, Import, Leave, Peek, Pull, Push, Reply, Rest
from tightwire.server.wireform import KINDS, WireForm

FORM = WireForm()
WHOLE = st.integers(0, 2**40)
TENSORS = st.sampled_from(
    [torch.zeros(0), torch.arange(6.0).view(2, 3), torch.tensor(3), torch.ones(2, dtype=torch.bool), torch.zeros(1, 0)]
)
NAMES = st.text(max_size=4)
WIRES = st.dictionaries(NAMES, TENSORS, max_size=3)
METAS = st.builds(Meta, WHOLE, WHOLE, WHOLE)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | NAMES | TENSORS
STATES = st.dictionaries(
    NAMES,
    st.recursive(
        PLAIN,
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.tuples(inner, inner)
            | st.dictionaries(NAMES | st.integers() | st.tuples(st.integers(), st.integers()), inner, max_size=2)
        ),
        max_leaves=8,
    ),
    max_size=3,
)
MADE: dict[type, st.SearchStrategy[Any]] = {
    Enter: st.builds(Enter, WHOLE, WHOLE),
    Leave: st.builds(Leave, WHOLE),
    Rest: st.builds(Rest, WHOLE),
    Push: st.builds(
        Push, WHOLE, WHOLE, METAS, WIRES, st.lists(st.floats(), max_size=3).map(tuple), st.booleans(),
        st.frozensets(NAMES, max_size=3), st.sampled_from(["before", "after"]),
    ),
    Pull: st.builds(Pull, WHOLE, METAS),
    Peek: st.builds(Peek, WHOLE),
    Export: st.builds(Export, WHOLE),
    Import: st.builds(Import, WHOLE, STATES, st.booleans()),
    Center: st.builds(Center, WHOLE, WIRES, st.booleans(), WHOLE),
    events.Taken: st.builds(events.Taken, WHOLE, st.booleans()),
    Exported: st.builds(Exported, STATES),
}  # fmt: skip


def same(one: Any, other: Any) -> bool:  # noqa: PLR0911 -- one for each kind of data
    """Equal in type and value, tensors bit for bit, NaN like NaN."""
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and one.dtype == other.dtype and one.shape == other.shape and one.equal(other)
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return one == other or (isnan(one) and isnan(other))
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if type(one) in KINDS.values():
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return bool(one == other)


def over_json(data: Any) -> Any:
    return json.loads(json.dumps(data, allow_nan=False))


def test_every_event_and_reply_has_a_form_and_a_test() -> None:
    assert set(MADE) == {*get_args(Event), *get_args(Reply)} == set(KINDS.values())


@given(st.one_of(*MADE.values()))
def test_what_comes_is_what_went(message: Any) -> None:
    data, tensors = FORM.pack(message)
    assert same(FORM.unpack(over_json(data), [t.clone() for t in tensors]), message)


def test_the_whole_state_of_a_shard_travels() -> None:
    for made in (shard(asynchronous(), workers=2), shard_with_optimizer(asynchronous(), torch.optim.Adam, workers=2)):
        made.handle(push(1, 0, 2.0))
        exported = Exported(made.state())
        data, tensors = FORM.pack(exported)
        assert same(FORM.unpack(over_json(data), tensors), exported)


GOOD = {"worker": 0, "meta": {"$meta": [0, 1, 2]}}
BAD: dict[str, tuple[Any, str]] = {
    "no object": ([], "kind and fields"),
    "something more": ({"kind": "Leave", "fields": {"worker": 0}, "code": "x"}, "kind and fields"),
    "an unknown kind": ({"kind": "Exec", "fields": {}}, "neither an event nor a reply"),
    "a kind that is no text": ({"kind": ["Leave"], "fields": {}}, "neither an event nor a reply"),
    "a field too few": ({"kind": "Pull", "fields": {"worker": 0}}, "'meta' is missing"),
    "a field too many": ({"kind": "Leave", "fields": {"worker": 0, "why": 1}}, "'why' is missing or too much"),
    "text for a number": ({"kind": "Leave", "fields": {"worker": "0"}}, "Leave.worker is a str"),
    "a truth for a number": ({"kind": "Leave", "fields": {"worker": True}}, "Leave.worker is a bool"),
    "a list for a meta": ({"kind": "Pull", "fields": {"worker": 0, "meta": [0, 1, 2]}}, "Pull.meta is a list"),
    "a meta of text": ({"kind": "Pull", "fields": {**GOOD, "meta": {"$meta": ["0", 1, 2]}}}, r"\$meta"),
    "a mark that is unknown": ({"kind": "Pull", "fields": {**GOOD, "meta": {"$eval": "1"}}}, r"\$eval"),
    "a tensor that did not come": ({"kind": "Leave", "fields": {"worker": {"$tensor": 7}}}, "tensor 7"),
    "a number for a wire": (
        {"kind": "Center", "fields": {"version": 0, "wires": {"w": 3}, "dropped": False, "clock": 0}},
        "Center.wires",
    ),
    "a pair that is none": ({"kind": "Exported", "fields": {"state": {"$pairs": [[1]]}}}, "not a key and a value"),
    "a list as a key": ({"kind": "Exported", "fields": {"state": {"$pairs": [[[1], 2]]}}}, "cannot be a key"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_malformed_is_named(name: str) -> None:
    data, says = BAD[name]
    with pytest.raises(PayloadError, match=says):
        FORM.unpack(data, [])


def test_tensors_that_nobody_names_or_two_do_are_refused() -> None:
    with pytest.raises(PayloadError, match="tensor 0, which it does not name"):
        FORM.unpack({"kind": "Leave", "fields": {"worker": 0}}, [torch.zeros(1)])
    twice = {"a": {"$tensor": 0}, "b": {"$tensor": 0}}
    with pytest.raises(PayloadError, match="named twice"):
        FORM.unpack({"kind": "Exported", "fields": {"state": twice}}, [torch.zeros(1)])


def test_bottomless_nesting_is_refused() -> None:
    deep: Any = 0
    for _ in range(200):
        deep = [deep]
    with pytest.raises(PayloadError, match="deep"):
        FORM.unpack({"kind": "Exported", "fields": {"state": {"a": deep}}}, [])


def test_what_is_no_message_or_no_plain_state_does_not_leave() -> None:
    with pytest.raises(PayloadError, match="neither an event nor a reply"):
        FORM.pack("Leave")
    with pytest.raises(PayloadError, match="cannot travel"):
        FORM.pack(Exported({"a": object()}))
