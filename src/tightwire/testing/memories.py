"""The laws of memories, each with every one-round codec."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tightwire.algebra.codec import Codec, Sent
from tightwire.algebra.memory import Forgets, Memory, fold
from tightwire.algebra.tensors import Bucket, State
from tightwire.algebra.world import At, World
from tightwire.run.tree import put_together, take_apart
from tightwire.testing.codecs import decode, encode
from tightwire.testing.strategies import worlds_of_buckets


def check_all(memory: Memory, codec: Codec) -> None:
    """Every law."""
    for law in (nothing_lost, owed_is_sent_again, refund_restores, survives_a_new_world, state_survives):
        law(memory, codec)


def nothing_lost(memory: Memory, codec: Codec) -> None:
    """Over all workers, at every step: what was to be sent = what was sent + what is still owed."""
    if not memory.keeps:
        return

    @given(worlds_of_buckets(3), st.integers(1, 4))
    def law(xs: list[Bucket], steps: int) -> None:
        run = _Run(memory, codec, xs)
        for _ in range(steps):
            values, received = run.step()
            owed = sum(run.owed(k) for k in range(len(xs)))
            given_ = torch.stack(values)
            torch.testing.assert_close(received.flat + owed, given_.sum(0), rtol=0, atol=1e-5 * _size(given_))

    law()


def owed_is_sent_again(memory: Memory, codec: Codec) -> None:
    """What is owed is part of the next value: without it, that value is smaller by as much, or by a stated share."""
    if not memory.keeps:
        return

    @given(worlds_of_buckets(1), st.integers(1, 3))
    def law(xs: list[Bucket], steps: int) -> None:
        with_debt, without = _Run(memory, codec, xs), _Run(memory, codec, xs)
        for _ in range(steps):
            with_debt.step()
            without.step()
        debt = with_debt.owed(0).clone()
        for tensor in memory.owed(without.states[0]).values():
            tensor.zero_()
        values = [run.memory.before(_copy(xs[0]), run.states[0], At()).flat.clone() for run in (with_debt, without)]
        share = memory.decay if isinstance(memory, Forgets) else 1.0
        torch.testing.assert_close(values[0] - values[1], share * debt, rtol=0, atol=1e-5 * _size(values[0]))

    law()


def refund_restores(memory: Memory, codec: Codec) -> None:
    """After a refund everything that was to be sent is owed again."""
    if not memory.keeps or memory.listens:
        return

    @given(worlds_of_buckets(1))
    def law(xs: list[Bucket]) -> None:
        run = _Run(memory, codec, xs)
        values, _ = run.step()
        memory.refund(run.sent[0], run.states[0])
        torch.testing.assert_close(run.owed(0), values[0], rtol=0, atol=1e-5 * _size(values[0]))

    law()


def survives_a_new_world(memory: Memory, codec: Codec) -> None:
    """Folding onto any number of workers conserves the sum over workers of every field."""

    @given(worlds_of_buckets(4), st.integers(1, 5))
    def law(xs: list[Bucket], workers: int) -> None:
        run = _Run(memory, codec, xs)
        run.step()
        folded = [fold(run.states, rank, workers) for rank in range(workers)]
        for field, named in run.states[0].items():
            for name in named:
                before, after = (
                    torch.stack([s[field][name].double() for s in states]) for states in (run.states, folded)
                )
                torch.testing.assert_close(after.sum(0), before.sum(0), rtol=0, atol=1e-6 * _size(before))

    law()


def state_survives(memory: Memory, codec: Codec) -> None:
    """State that went through a checkpoint gives the same next value."""

    @given(worlds_of_buckets(1))
    def law(xs: list[Bucket]) -> None:
        run = _Run(memory, codec, xs)
        run.step()
        kept, tensors = take_apart({field: dict(named) for field, named in run.states[0].items()})
        revived = memory.init(xs[0].spec)
        for field, named in put_together(kept, tensors).items():
            for name, tensor in named.items():
                revived[field][name].copy_(tensor)
        at = At()
        one = memory.before(_copy(xs[0]), run.states[0], at).flat.clone()
        two = memory.before(_copy(xs[0]), revived, at).flat
        assert torch.equal(one, two)

    law()


class _Run:
    """Workers that give the same gradients again and again."""

    def __init__(self, memory: Memory, codec: Codec, xs: Sequence[Bucket]) -> None:
        self.memory, self.codec, self.xs = memory, codec, xs
        self.states: list[State] = [memory.init(x.spec) for x in xs]
        self.codec_states: list[State] = [codec.init(x.spec) for x in xs]
        self.sent: list[Sent] = []

    def step(self) -> tuple[list[Tensor], Bucket]:
        """One exchange: what each worker wanted to send, and the sum that came back."""
        ats = [At(world=World(k, len(self.xs))) for k in range(len(self.xs))]
        values = [self.memory.before(_copy(x), s, at) for x, s, at in zip(self.xs, self.states, ats, strict=True)]
        wanted = [value.flat.clone() for value in values]
        results = encode(self.codec, values, self.codec_states).results
        received = decode(self.codec, results, self.xs[0].spec, self.codec_states[0])
        self.sent = [encoded.sent for encoded in results]
        for value, encoded, state, at in zip(values, results, self.states, ats, strict=True):
            self.memory.after(value, encoded.sent, received, state, at)
        return wanted, received

    def owed(self, k: int) -> Tensor:
        """What a worker still owes, laid out as its bucket."""
        out = Bucket.zeros(self.xs[k].spec)
        for name, tensor in self.memory.owed(self.states[k]).items():
            out[name].copy_(tensor)
        return out.flat


def _size(values: Tensor) -> float:
    """The largest magnitude: what rounding errors are measured against."""
    return float(values.abs().max()) if values.numel() else 1.0


def _copy(x: Bucket) -> Bucket:
    return Bucket(x.flat.clone(), x.spec)
