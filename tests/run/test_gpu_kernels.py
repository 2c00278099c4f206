"""The fused kernels on a GPU: equal to memory and codec composed, bit for bit."""

import pytest
import torch

from tests.run.training import weights_after
from tightwire import kernels
from tightwire.algebra.codec import Codec, Payload, drive
from tightwire.algebra.compressor import Composed
from tightwire.algebra.errors import NotFiniteError, PayloadError
from tightwire.algebra.memory import Memory, bucket_of
from tightwire.algebra.recipe import AnyRecipe
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.choose import by_dimension
from tightwire.codecs.half import half
from tightwire.codecs.topk import topk
from tightwire.exchanges.allreduce import ring
from tightwire.kernels.gpu_topk import FusedTopKGpu
from tightwire.memories.momentum import momentum_correction
from tightwire.memories.residual import residual
from tightwire.recipes import dgc, one_bit, sync_sgd

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")]
GPU = torch.device("cuda")
SPEC = Spec.pack(
    [("w", (300, 500)), ("b", (300,)), ("few", (3, 1)), ("c", (64, 3, 7, 7)), ("big", (1500, 1000))], device="cuda"
)
FUSED = [
    (residual(), topk(0.01)),
    (momentum_correction(0.5), topk(0.1, values="log8", gaps="rice")),
    (momentum_correction(masking="off", form="nesterov"), topk(0.003)),
    (momentum_correction(), by_dimension(rest=topk(0.001))),
    (residual(), by_dimension(vectors=half(), rest=topk(0.05, values="float16"))),
]


@pytest.mark.parametrize(("memory", "codec"), FUSED)
def test_it_does_as_the_composed_one(memory: Memory, codec: Codec) -> None:
    fast, slow = kernels.find(memory, codec, GPU), Composed(memory, codec)
    assert isinstance(fast, FusedTopKGpu)
    kept = fast.init(SPEC), slow.init(SPEC)
    for step in range(12):
        generator = torch.Generator(GPU).manual_seed(step)
        flat = torch.randn(SPEC.numel, generator=generator, device=GPU) * 10.0 ** (step % 3 - 1)
        if step % 4 == 3:
            flat = flat.round()  # many ties
        wires, outs = [], []
        for compressor, state in zip((fast, slow), kept, strict=True):
            x = Bucket(flat.clone(), SPEC)
            done = drive(compressor.compress(x, state, At(step=step)), lambda ask: ask.tensor)
            out = Bucket.zeros(SPEC)
            compressor.expand_(out, [done.payload, done.payload], state, At(step=step))
            compressor.settle(done, out, state, At(step=step))
            wires.append(done.payload.wire)
            outs.append(out.flat)
        assert torch.equal(*wires), step
        assert torch.equal(*outs), step
        for field in kept[1].memory:
            assert torch.equal(bucket_of(kept[0].memory, field).flat, bucket_of(kept[1].memory, field).flat), step


def test_what_is_not_finite_is_refused() -> None:
    kernel = kernels.find(momentum_correction(), topk(0.01), GPU)
    kept = kernel.init(SPEC)
    for bad in (False, True):
        x = Bucket(torch.randn(SPEC.numel, device=GPU), SPEC)
        if bad:
            x["c"][3, 1, 1, 1] = float("inf")
            with pytest.raises(NotFiniteError, match="'c'"):
                drive(kernel.compress(x, kept, At()), lambda ask: ask.tensor)
        else:
            drive(kernel.compress(x, kept, At()), lambda ask: ask.tensor)
    assert bool(bucket_of(kept.memory, "residual").flat.isfinite().all())


def test_gaps_that_lead_astray_are_refused() -> None:
    kernel = kernels.find(momentum_correction(), topk(0.01), GPU)
    wire = torch.full((6 * 1000,), 255, dtype=torch.uint8, device=GPU)
    with pytest.raises(PayloadError, match="beyond"):
        kernel.expand_(Bucket.zeros(SPEC), [Payload(wire)], kernel.init(SPEC), At())


@pytest.mark.parametrize(
    "recipe", [sync_sgd(ring()), dgc(0.01, momentum=0.9), one_bit()], ids=lambda recipe: recipe.name
)
def test_streams_do_not_overtake_each_other(recipe: AnyRecipe) -> None:
    """Workers in one process have streams of their own; with large tensors a missing wait shows."""
    first, second = (weights_after(40, recipe, workers=4, inputs=1500, hidden=3000, outputs=1500) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)
