"""A layer dealt out over workers computes what the whole one does: loss, gradients, errors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from tightwire.algebra.errors import JoinError, UsageError
from tightwire.splits.stages import deal
from tightwire.splits.wide import backward_part, check_columns, column, edges_of, forward_part, row, whole_sum


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(1, 6), st.booleans(), st.integers(0, 99))
def test_the_parts_are_the_whole(columns: list[int], batch: int, bias: bool, seed: int) -> None:
    torch.manual_seed(seed)
    whole = nn.Linear(3, sum(columns), bias=bias).double()
    h = torch.randn(batch, 3, dtype=torch.float64, requires_grad=True)
    y = torch.randint(sum(columns), (batch,))
    loss = F.cross_entropy(whole(h) * 1.0, y)
    loss.backward()
    layers = [column(whole, lo, hi) for lo, hi in edges_of(columns)]
    parts = [forward_part(layer, h.detach(), y, lo) for layer, (lo, _) in zip(layers, edges_of(columns), strict=True)]
    log, losses = whole_sum([part.said_3B for part in parts])
    errors = [backward_part(layer, part, log, 1.0) for layer, part in zip(layers, parts, strict=True)]
    torch.testing.assert_close(losses.mean(), loss.detach())
    torch.testing.assert_close(torch.stack(errors).sum(0), h.grad)
    torch.testing.assert_close(torch.cat([layer.weight.grad for layer in layers]), whole.weight.grad)
    if bias:
        torch.testing.assert_close(torch.cat([layer.bias.grad for layer in layers]), whole.bias.grad)


def test_large_logits_do_not_overflow() -> None:
    whole = nn.Linear(1, 4, bias=False)
    with torch.no_grad():
        whole.weight.copy_(torch.tensor([[1e4], [2e4], [-1e4], [0.0]]))
    h, y = torch.ones(2, 1), torch.tensor([1, 2])
    parts = [forward_part(column(whole, lo, hi), h, y, lo) for lo, hi in ((0, 1), (1, 4))]
    _, losses = whole_sum([part.said_3B for part in parts])
    torch.testing.assert_close(losses, torch.tensor([0.0, 3e4]))


def test_gradients_of_several_microbatches_add_up() -> None:
    layer, h, y = nn.Linear(3, 4), torch.randn(6, 3), torch.randint(4, (6,))
    for rows in (slice(0, 2), slice(2, 6)):
        part = forward_part(layer, h[rows], y[rows], 0)
        backward_part(layer, part, whole_sum([part.said_3B])[0], len(h[rows]) / len(h))
    got = layer.weight.grad.clone()  # type: ignore[union-attr]
    layer.zero_grad()
    F.cross_entropy(layer(h), y).backward()
    torch.testing.assert_close(got, layer.weight.grad)


def test_a_share_lies_in_the_memory_of_the_whole() -> None:
    whole = nn.Linear(2, 3)
    part = column(whole, 1, 3)
    with torch.no_grad():
        part.weight.fill_(7.0)
    assert whole.weight[1:].eq(7.0).all() and not whole.weight[0].eq(7.0).any()


@given(st.integers(1, 4), st.integers(1, 4))
def test_rows_add_up(left: int, right: int) -> None:
    whole, x = nn.Linear(left + right, 2), torch.randn(3, left + right)
    parts = row(whole, 0, left, with_bias=False)(x[:, :left]) + row(whole, left, left + right, with_bias=True)(
        x[:, left:]
    )
    torch.testing.assert_close(parts, whole(x))


@given(st.lists(st.floats(-5, 10), min_size=1, max_size=8), st.floats(0.1, 50), st.integers(1, 1000))
def test_units_go_to_those_who_have_least(loads: list[float], total: float, units: int) -> None:
    dealt = deal(loads, total, units)
    assert sum(dealt) == units and min(dealt) >= 0
    after = [load + total * part / units for load, part in zip(loads, dealt, strict=True)]
    least = max(*loads, (sum(loads) + total) / len(loads))
    assert max(after) <= least + 2 * total / units


def test_what_cannot_be_dealt_out_is_refused() -> None:
    with pytest.raises(JoinError, match="last layer is a Tanh"):
        check_columns(nn.Tanh(), (1, 1))
    with pytest.raises(JoinError, match="are 4 in all, and the last layer has 3"):
        check_columns(nn.Linear(2, 3), (2, 2))
    with pytest.raises(UsageError, match="one class a sample"):
        forward_part(nn.Linear(2, 3), torch.zeros(4, 2), torch.zeros(4, 3), 0)
