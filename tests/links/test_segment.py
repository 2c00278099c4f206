"""Memory of two processes: what was offered is opened, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tightwire.algebra.errors import PayloadError
from tightwire.links.frames import announce, expect
from tightwire.links.segment import Segment, make, open_offered

Offered = tuple[Segment, dict[str, Any]]


@pytest.fixture
def offered() -> Iterator[Offered]:
    segment, offer, handle = make(1 << 16, 1 << 12)
    yield segment, offer
    os.close(handle)


def test_both_sides_see_the_same_bytes(offered: Offered) -> None:
    mine, offer = offered
    theirs = open_offered(offer)
    tensors = [torch.randn(3, 5), torch.arange(7, dtype=torch.uint8), torch.zeros(0), torch.tensor(True)]
    frames = expect(announce(tensors))
    mine.up.put(tensors, frames)
    assert all(a.equal(b) for a, b in zip(theirs.up.tensors(frames), tensors, strict=True))
    theirs.down.put(tensors, frames)
    assert all(a.equal(b) for a, b in zip(mine.down.tensors(frames), tensors, strict=True))


def test_an_area_knows_whether_anybody_looks_at_it(offered: Offered) -> None:
    mine, _ = offered
    (tensor,) = mine.up.tensors(expect([["float32", [8, 8]]]))
    part = tensor[2].view(torch.int32)
    assert not mine.up.free and mine.down.free
    del tensor
    assert not mine.up.free
    del part
    assert mine.up.free


def test_more_than_there_is_room_for_is_refused(offered: Offered) -> None:
    mine, _ = offered
    with pytest.raises(PayloadError, match="65,600 bytes are announced in memory of 65,536"):
        mine.up.tensors(expect([["float32", [16384]], ["uint8", [1]]]))


def test_it_outlives_its_maker_and_has_no_name() -> None:
    segment, offer, handle = make(1 << 20, 0)
    theirs = open_offered(offer)
    os.close(handle)
    frames = expect([["float32", [4]]])
    segment.up.put([torch.ones(4)], frames)
    del segment
    assert theirs.up.tensors(frames)[0].equal(torch.ones(4))
    assert "memfd:tightwire (deleted)" in maps()
    del theirs
    assert "memfd:tightwire" not in maps()


def maps() -> str:
    with open("/proc/self/maps") as lines:
        return lines.read()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another host": ({"host": "elsewhere"}, "another host"),
    "another name": ({"name": "0" * 64}, "not its own"),
    "a short name": ({"name": ""}, "cannot be"),
    "another size": ({"up": 1 << 17}, "another size"),
    "a negative size": ({"down": -1}, "cannot be"),
    "a huge size": ({"up": 1 << 60}, "cannot be"),
    "nobody's": ({"pid": 1 << 22}, "cannot be opened"),
    "no such descriptor": ({"handle": 1 << 20}, "cannot be opened"),
    "text": ({"handle": "../mem"}, "says whose"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_offers_that_are_not_so_are_refused(offered: Offered, wrong: str) -> None:
    change, reason = WRONG[wrong]
    with pytest.raises(PayloadError, match=reason):
        open_offered({**offered[1], **change})


def test_other_files_are_not_mapped(offered: Offered) -> None:
    read, write = os.pipe()
    bare = os.memfd_create("bare", os.MFD_ALLOW_SEALING)
    os.ftruncate(bare, 4096 + (1 << 16) + (1 << 12))
    try:
        for handle, reason in ((read, "cannot be opened"), (bare, "may shrink")):
            with pytest.raises(PayloadError, match=reason):
                open_offered({**offered[1], "handle": handle})
    finally:
        for handle in (read, write, bare):
            os.close(handle)


def test_it_cannot_shrink_under_its_reader() -> None:
    segment, _, handle = make(1 << 16, 0)
    with pytest.raises(PermissionError):
        os.ftruncate(handle, 0)
    os.close(handle)
    assert segment.up.nbytes == 1 << 16
