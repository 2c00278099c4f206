"""The laws of codecs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tightwire.algebra.codec import Codec, Encoded, Payload, Sent, Unbiased
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At, World
from tightwire.run.tree import put_together, take_apart
from tightwire.testing.meeting import Met, meet
from tightwire.testing.strategies import buckets, filled, worlds_of_buckets


def check_all(codec: Codec) -> None:
    """Every law; raises AssertionError with the counter-example that hypothesis found."""
    for law in (
        decoded_is_sent, payload_within_capacity, input_untouched, same_again, grain_invisible, sums_add,
        state_survives, exact_if_identity, garbage_refused, right_on_average,
    ):  # fmt: skip
        law(codec)


def decoded_is_sent(codec: Codec) -> None:
    """What `decode_` adds for all payloads together is what all `Sent` subtract."""

    @given(worlds_of_buckets())
    def law(xs: list[Bucket]) -> None:
        states = [codec.init(x.spec) for x in xs]
        met = encode(codec, xs, states)
        out = decode(codec, met.results, xs[0].spec, states[0])
        sent = Bucket.zeros(xs[0].spec)
        for encoded in met.results:
            sent.flat.add_(_densely(encoded.sent, sent.spec).flat)
        _close(out.flat, sent.flat)

    law()


def payload_within_capacity(codec: Codec) -> None:
    """Payload and questions never exceed the capacity that all ranks computed beforehand."""

    @given(worlds_of_buckets())
    def law(xs: list[Bucket]) -> None:
        met = encode(codec, xs, [codec.init(x.spec) for x in xs])
        for k, encoded in enumerate(met.results):
            at = _at(k, len(xs))
            capacity = codec.capacity(xs[k].spec, at)
            assert capacity == codec.capacity(xs[k].spec, _at(0, len(xs))), "capacity must be equal on all ranks"
            used = encoded.payload.nbytes + met.asked_nbytes[k]
            assert used <= capacity, f"a payload of {used} bytes exceeds the capacity of {capacity}"

    law()


def input_untouched(codec: Codec) -> None:
    """Encoding leaves its input as it was."""

    @given(worlds_of_buckets())
    def law(xs: list[Bucket]) -> None:
        before = [x.flat.clone() for x in xs]
        encode(codec, xs, [codec.init(x.spec) for x in xs])
        for x, old in zip(xs, before, strict=True):
            assert torch.equal(x.flat, old)

    law()


def same_again(codec: Codec) -> None:
    """The same bucket, state and moment give the same bytes."""

    @given(worlds_of_buckets())
    def law(xs: list[Bucket]) -> None:
        first, second = (encode(codec, xs, [codec.init(x.spec) for x in xs]) for _ in range(2))
        for one, two in zip(first.results, second.results, strict=True):
            assert torch.equal(one.payload.wire, two.payload.wire)

    law()


def grain_invisible(codec: Codec) -> None:
    """Two tensors in one bucket are sent as they would be in two buckets."""

    @given(buckets())
    def law(x: Bucket) -> None:
        together = _roundtrip(codec, x)
        for segment, flat in x.segments():
            alone = Bucket(flat.clone(), Spec((replace(segment, offset=0),)))
            _close(_roundtrip(codec, alone)[segment.key], together[segment.key])

    law()


def sums_add(codec: Codec) -> None:
    """For codecs that say so: decoding a sum of payloads is summing decoded payloads."""
    if codec.combines != "sum":
        return

    @given(worlds_of_buckets())
    def law(xs: list[Bucket]) -> None:
        states = [codec.init(x.spec) for x in xs]
        results = encode(codec, xs, states).results
        at_once = decode(codec, results, xs[0].spec, states[0])
        one_by_one = Bucket.zeros(xs[0].spec)
        for k, encoded in enumerate(results):
            codec.decode_(one_by_one, encoded.payload, codec.init(xs[0].spec), _at(k, len(xs)))
        _close(at_once.flat, one_by_one.flat)

    law()


def state_survives(codec: Codec) -> None:
    """State that went through a checkpoint goes on as if nothing had happened, and is equal on all ranks."""

    @given(worlds_of_buckets(), st.integers(1, 3))
    def law(xs: list[Bucket], steps: int) -> None:
        states = [codec.init(x.spec) for x in xs]
        for _ in range(steps):
            results = encode(codec, xs, states).results
            for state in states:
                decode(codec, results, xs[0].spec, state)
        for state in states[1:]:
            _assert_same_state(state, states[0])
        kept, tensors = take_apart({field: dict(named) for field, named in states[0].items()})
        revived = [put_together(kept, {k: t.clone() for k, t in tensors.items()}) for _ in xs]
        one, two = encode(codec, xs, states).results, encode(codec, xs, revived).results
        for a, b in zip(one, two, strict=True):
            assert torch.equal(a.payload.wire, b.payload.wire)

    law()


def exact_if_identity(codec: Codec) -> None:
    """A codec that claims to be the identity loses no bit."""
    if not codec.identity:
        return

    @given(buckets())
    def law(x: Bucket) -> None:
        assert torch.equal(_roundtrip(codec, x).flat, x.flat)

    law()


def garbage_refused(codec: Codec) -> None:
    """Damaged and invented bytes are decoded into the bucket or refused with `PayloadError`; nothing else happens."""
    if codec.combines == "sum":
        return  # such payloads are numbers that were added on the way: any are valid

    @given(
        buckets(), st.binary(max_size=200), st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 255)), max_size=4)
    )
    def law(x: Bucket, noise: bytes, flips: list[tuple[int, int]]) -> None:
        real = encode(codec, [x], [codec.init(x.spec)]).results[0].payload.wire.clone()
        for place, value in flips if real.numel() else ():
            real[place % real.numel()] = value
        invented = torch.frombuffer(bytearray(noise), dtype=torch.uint8) if noise else real[:0]
        for wire in (real, real[: real.numel() // 2], torch.cat([real, invented]), invented):
            _assert_decoded_or_refused(codec, x.spec, wire)

    law()


_MOMENTS = 400
_ERRORS = 5.0  # standard errors: beyond that it is no accident


def right_on_average(codec: Codec) -> None:
    """For codecs that claim it: the mean over many moments of what is decoded is what the codec says it is."""
    if not isinstance(codec, Unbiased):
        return
    spec = Spec.pack([("w", (24, 16)), ("b", (40,)), ("s", ())])
    for kind in ("normal", "wide", "negative"):
        x = filled(spec, kind, seed=5)
        wanted = codec.expected(x, _at(0, 1)).double()
        drawn = torch.stack([_decoded_at(codec, x, At(step=step, seed=7)) for step in range(_MOMENTS)]).double()
        off = drawn - wanted
        _assert_no_drift(off @ wanted.sign(), f"{kind} values come out too large or too small")
        slack = 1e-5 * float(wanted.abs().max())  # float32 carries no more
        error = float((off.mean(0).abs() - slack).clamp(min=0).norm())
        accident = float((off.var(0) / _MOMENTS).sum().sqrt())
        assert error <= 2 * accident, f"{kind} values are off by {error:.2e} on average, by chance {accident:.2e}"


def _assert_no_drift(off_T: Tensor, says: str) -> None:
    drift, accident = float(off_T.mean()), float(off_T.std()) / _MOMENTS**0.5
    slack = 1e-6 * float(off_T.abs().max()) + 1e-4
    assert abs(drift) <= _ERRORS * accident + slack, f"{says}: by {drift:.2e}, by chance {accident:.2e}"


def _decoded_at(codec: Codec, x: Bucket, at: At) -> Tensor:
    out = Bucket.zeros(x.spec)
    payload = meet([codec.encode(x, codec.init(x.spec), at)]).results[0].payload
    codec.decode_(out, payload, codec.init(x.spec), at)
    return out.flat


def _assert_decoded_or_refused(codec: Codec, spec: Spec, wire: Tensor) -> None:
    out = Bucket.zeros(spec)
    try:
        codec.decode_(out, Payload(wire.clone()), codec.init(spec), _at(0, 1))
    except PayloadError:
        assert not out.flat.any(), "a refused payload must leave the bucket as it was"
    except Exception as error:
        raise AssertionError(f"a damaged payload raised {error!r} where PayloadError belongs") from error


def _at(rank: int, size: int) -> At:
    return At(step=3, world=World(rank, size), seed=7)


def encode(codec: Codec, xs: Sequence[Bucket], states: Sequence[State]) -> Met[Encoded]:
    """All workers' encodings, with their questions answered."""
    return meet([codec.encode(x, s, _at(k, len(xs))) for k, (x, s) in enumerate(zip(xs, states, strict=True))])


def decode(codec: Codec, results: Sequence[Encoded], spec: Spec, state: State) -> Bucket:
    """What a worker makes of all payloads, combined as the codec says."""
    out = Bucket.zeros(spec)
    if codec.combines == "sum":
        total = torch.stack([encoded.payload.wire for encoded in results]).sum(0)
        codec.decode_(out, Payload(total, results[0].payload.local), state, _at(0, len(results)))
    else:
        for k, encoded in enumerate(results):
            codec.decode_(out, encoded.payload, state, _at(k, len(results)))
    return out


def _roundtrip(codec: Codec, x: Bucket) -> Bucket:
    states = [codec.init(x.spec)]
    return decode(codec, encode(codec, [x], states).results, x.spec, states[0])


def _densely(sent: Sent, spec: Spec) -> Bucket:
    out = Bucket.zeros(spec)
    sent.subtract_from_(out)
    out.flat.neg_()
    return out


def _assert_same_state(one: State, two: State) -> None:
    for field, named in one.items():
        for key, tensor in named.items():
            assert torch.equal(tensor, two[field][key]), f"{field} of {key} differs between ranks"


def _close(one: Tensor, two: Tensor) -> None:
    torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
