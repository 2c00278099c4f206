"""Large messages are copied by what the process was told, small ones by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tightwire.engines.quick import make_quick
from tightwire.links import copying
from tightwire.links.frames import Staging, announce, expect, pieces


@pytest.fixture(autouse=True)
def _untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "_told", [])


def test_nothing_is_loaded_for_small_messages() -> None:
    copying.copy_large_with(lambda: pytest.fail("loaded"))
    assert copying.copy_for(copying.WORTH_NBYTES - 1) is np.copyto


def test_where_there_is_nothing_faster_numpy_copies() -> None:
    assert copying.copy_for(1 << 30) is np.copyto
    copying.copy_large_with(lambda: None)
    assert copying.copy_for(1 << 30) is np.copyto


def test_a_large_message_comes_whole_by_the_way_that_was_told() -> None:
    copied: list[int] = []

    def copy(into: Any, part: Any) -> None:
        copied.append(part.size)
        np.copyto(into, part)

    copying.copy_large_with(lambda: copy)
    sent = [torch.arange(3, dtype=torch.uint8), torch.arange(copying.WORTH_NBYTES // 4, dtype=torch.float32)]
    staging = Staging(expect(announce(sent)))
    for piece in pieces(sent):
        staging.take(piece)
    assert all(a.equal(b) for a, b in zip(staging.whole(), sent, strict=True))
    assert sum(copied) == sum(tensor.nbytes for tensor in sent)


def test_processes_of_ours_copy_past_the_cache() -> None:
    make_quick()
    copy = copying.copy_for(copying.WORTH_NBYTES)
    assert copy is not np.copyto
    into = np.zeros(1000, dtype=np.uint8)
    copy(into, np.full(1000, 7, dtype=np.uint8))
    assert (into == 7).all()
