"""The laws of rules, signals and adoption."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tightwire.algebra.rule import Adopt, Rule, Signal
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At, World
from tightwire.testing.strategies import buckets, filled, specs


def check_rule(rule: Rule) -> None:
    """Every law of rules. The user's optimizer has its own tests."""
    weights_are_fair(rule)
    if rule.yours:
        return
    for law in (
        (moves_against_what_is_sent, still_when_nothing_is_sent)
        if rule.accepts == "direction"
        else (takes_the_position,)
    ):
        law(rule)


def weights_are_fair(rule: Rule) -> None:
    """Weights are positive, never grow with staleness, and one fresh contribution alone counts in full or in part."""
    for together in range(1, 9):
        weights = [rule.weigh(staleness, together) for staleness in range(10)]
        assert all(0 < weight <= 1 for weight in weights), weights
        assert weights == sorted(weights, reverse=True), weights


def moves_against_what_is_sent(rule: Rule) -> None:
    """What is sent is old − new, so the centre moves down along it."""

    @given(specs(), st.integers(0, 1000))
    def law(spec: Spec, seed: int) -> None:
        center, sent = filled(spec, "normal", seed), filled(spec, "normal", seed + 1)
        before = center.flat.clone()
        rule.step_(center, sent, rule.init(center.spec), At(lr=0.1))
        moved = center.flat - before
        if sent.flat.any():
            assert float(moved @ sent.flat) < 0, "the centre moved along what was sent, not against it"

    law()


def still_when_nothing_is_sent(rule: Rule) -> None:
    """From rest, nothing sent means nothing moved."""

    @given(buckets())
    def law(center: Bucket) -> None:
        before = center.flat.clone()
        rule.step_(center, Bucket.zeros(center.spec), rule.init(center.spec), At(lr=0.1))
        assert torch.equal(center.flat, before)

    law()


def takes_the_position(rule: Rule) -> None:
    """A rule that takes positions moves the centre straight towards them, not past them, also if both share memory."""

    @given(buckets(), st.integers(0, 1000))
    def law(center: Bucket, seed: int) -> None:
        total = filled(center.spec, "normal", seed)
        way = total.flat - center.flat
        before = center.flat.clone()
        rule.step_(center, total, rule.init(center.spec), At())
        moved = center.flat - before
        share = float(moved.double() @ way.double() / (way.double() @ way.double())) if way.any() else 1.0
        assert 0 < share <= 1 + 1e-5, f"the centre moved {share:.2f} of the way"
        _close(center.flat, before.lerp(total.flat, share))
        there = total.flat.clone()
        rule.step_(total, total, rule.init(center.spec), At())
        _close(total.flat, there)

    law()


def check_signal(signal: Signal) -> None:
    """A direction points from where the worker is to where it was; a position is where it is."""
    if signal.when == "backward":
        return

    @given(st.integers(0, 1000), st.sampled_from([1.0, 0.5]))
    def law(seed: int, scale: float) -> None:
        generator = torch.Generator().manual_seed(seed)
        weight, center = torch.randn(5, generator=generator), torch.randn(5, generator=generator)
        x = torch.empty(5)
        signal.fill_(x, weight, center if signal.needs_center else None, scale)
        wanted = weight if signal.kind == "position" else center - weight
        _close(x, wanted * scale)

    law()


def check_adopt(adopt: Adopt) -> None:
    """A worker that is at the centre stays there; any other does not move away from it."""

    @given(st.integers(0, 1000))
    def law(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        weight, center = torch.randn(5, generator=generator), torch.randn(5, generator=generator)
        before = float((weight - center).norm())
        adopt.adopt_(weight, center, At(world=World(size=3)))
        assert float((weight - center).norm()) <= before
        here = center.clone()
        adopt.adopt_(here, center, At(world=World(size=3)))
        assert torch.equal(here, center)

    law()


def _close(one: Tensor, two: Tensor) -> None:
    torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)
