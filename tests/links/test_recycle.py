"""Blocks are used again when nobody refers to them, and never before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tightwire.links.frames import Frame, lay_out
from tightwire.links.recycle import Block, Recycler

SIZE = 3 << 20
MAKERS: list[Callable[[torch.Tensor], Any]] = [
    lambda t: t[3:9, 2],
    lambda t: t.view(torch.int32)[1:, :4],
    lambda t: t.numpy()[5:][1:],
    lambda t: t.detach(),
]


def address(block: Block) -> int:
    return int(block.ctypes.data)


def test_a_block_comes_back_when_the_last_tensor_made_of_it_is_gone() -> None:
    recycler = Recycler()
    block = recycler.take(SIZE)
    where = address(block)
    whole, _ = lay_out([Frame(torch.float32, (100, 100)), Frame(torch.uint8, (7,))], block)
    del block, _
    kept = [make(whole) for make in MAKERS]
    del whole
    while kept:
        assert address(recycler.take(SIZE)) != where, f"{len(kept)} still look at it"
        kept.pop()
    assert where in {address(block) for block in [recycler.take(SIZE), recycler.take(SIZE)]}


def test_a_block_is_not_much_larger_than_asked_for() -> None:
    recycler = Recycler()
    large = address(recycler.take(64 << 20))
    assert address(recycler.take(SIZE)) != large
    assert address(recycler.take(40 << 20)) == large


def test_only_a_few_unused_blocks_are_kept() -> None:
    recycler = Recycler()
    held = [recycler.take(SIZE) for _ in range(30)]
    assert recycler.blocks == 30
    held.clear()
    recycler.take(100 << 20)
    assert recycler.blocks == 8
