"""Error feedback: over many steps nothing is lost, whatever the codec leaves behind."""

from __future__ import annotations

import pytest
import torch

from tightwire.algebra.codec import Codec, SparseSent
from tightwire.algebra.memory import bucket_of
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At, World
from tightwire.codecs.dense import dense
from tightwire.codecs.lowrank import lowrank
from tightwire.codecs.onebit import onebit
from tightwire.codecs.topk import topk
from tightwire.memories.residual import residual
from tightwire.testing.codecs import decode, encode

SPEC = Spec.pack([("w", (8, 6)), ("b", (8,))])
STEPS = 80


def gradients(workers: int) -> torch.Tensor:
    return torch.randn(STEPS, workers, SPEC.numel, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("codec", [onebit(), topk(0.05), topk(0.5), dense()], ids=str)
def test_all_that_was_sent_and_the_rest_are_all_that_was_given(codec: Codec) -> None:
    memory, stream = residual(), gradients(1)
    state, sent = memory.init(SPEC), torch.zeros(SPEC.numel, dtype=torch.float64)
    for gradient in stream[:, 0]:
        value = memory.before(Bucket(gradient.clone(), SPEC), state, At())
        encoded = encode(codec, [value], [{}]).results[0]
        out = decode(codec, [encoded], SPEC, {})
        memory.after(value, encoded.sent, out, state, At())
        sent += out.flat.double()
    owed = bucket_of(state, "residual").flat.double()
    torch.testing.assert_close(sent + owed, stream[:, 0].double().sum(0), rtol=0, atol=1e-4)


@pytest.mark.parametrize("codec", [lowrank(1), topk(0.1)], ids=str)
def test_against_what_came_back_nothing_is_lost_over_all_workers(codec: Codec) -> None:
    memory, stream, workers = residual("received"), gradients(3), 3
    states, codec_states = ([part.init(SPEC) for _ in range(workers)] for part in (memory, codec))
    received = torch.zeros(SPEC.numel, dtype=torch.float64)
    for step in stream:
        ats = [At(world=World(rank, workers)) for rank in range(workers)]
        values = [memory.before(Bucket(g.clone(), SPEC), s, at) for g, s, at in zip(step, states, ats, strict=True)]
        results = encode(codec, values, codec_states).results
        outs = [decode(codec, results, SPEC, state) for state in codec_states]
        for rank in range(workers):
            memory.after(values[rank], results[rank].sent, outs[rank], states[rank], ats[rank])
        received += outs[0].flat.double()
    owed = torch.stack([bucket_of(state, "residual").flat.double() for state in states]).sum(0)
    torch.testing.assert_close(received + owed, stream.double().sum((0, 1)), rtol=0, atol=1e-3)


def test_what_is_owed_is_part_of_the_next_value() -> None:
    memory = residual()
    state = memory.init(Spec.pack([("w", (3,))]))
    x = Bucket(torch.tensor([1.0, -2.0, 3.0]), Spec.pack([("w", (3,))]))
    first = memory.before(Bucket(x.flat.clone(), x.spec), state, At())
    memory.after(first, SparseSent(torch.tensor([2]), torch.tensor([3.0])), x, state, At())
    assert memory.owed(state)["w"].tolist() == [1.0, -2.0, 0.0]
    assert memory.before(Bucket(x.flat.clone(), x.spec), state, At()).flat.tolist() == [2.0, -4.0, 3.0]


def test_a_refund_is_owed_again() -> None:
    memory = residual()
    state = memory.init(Spec.pack([("w", (2,))]))
    x = Bucket(torch.tensor([1.0, 5.0]), Spec.pack([("w", (2,))]))
    sent = SparseSent(torch.tensor([1]), torch.tensor([5.0]))
    memory.after(memory.before(x, state, At()), sent, x, state, At())
    assert memory.owed(state)["w"].tolist() == [1.0, 0.0]
    memory.refund(sent, state)
    assert memory.owed(state)["w"].tolist() == [1.0, 5.0]


def test_only_the_form_against_what_came_back_listens() -> None:
    assert residual("received").listens
    assert not residual("sent").listens
