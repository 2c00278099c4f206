"""Bits packed on a GPU: the bytes, what they stand for and what is added equal the codecs' own way, bit for bit."""

import pytest
import torch
from torch import nn

from tightwire.algebra.codec import Codec, DenseSent, Payload, drive
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.recipe import AnyRecipe
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.onebit import onebit
from tightwire.codecs.passes import offer, passes_for, withdraw
from tightwire.codecs.terngrad import terngrad
from tightwire.kernels.gpu_bits import GpuPasses, gpu_passes
from tightwire.recipes import one_bit
from tightwire.recipes import terngrad as terngrad_recipe
from tightwire.run.join import join
from tightwire.run.together import together

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")]
SPECS = [
    Spec.pack(
        [("w", (300, 500)), ("b", (300,)), ("none", (0, 3)), ("few", (3, 1)), ("c", (64, 3, 7, 7)), ("s", ())],
        device="cuda",
    ),
    Spec.pack([("one", (1,))], device="cuda"),
    Spec.pack([("z", (2, 0)), ("w", (1023,)), ("v", (1,)), ("u", (2, 5000))], device="cuda"),
]
CODECS = [onebit(), terngrad(), terngrad(float("inf"), scaler="own")]


def there_and_back(codec: Codec, x: Bucket, at: At) -> list[torch.Tensor]:
    """The payload, what it says it carries, and what it adds to ones."""
    encoded = drive(codec.encode(x, {}, at), lambda ask: ask.tensor)
    assert isinstance(encoded.sent, DenseSent)
    out = Bucket(torch.ones_like(x.flat), x.spec)
    codec.decode_(out, Payload(encoded.payload.wire.clone()), {}, at)
    return [encoded.payload.wire, encoded.sent.flat, out.flat]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: str(spec.numel))
@pytest.mark.parametrize("codec", CODECS)
def test_they_do_as_the_codec_itself(codec: Codec, spec: Spec) -> None:
    for step in range(4):
        generator = torch.Generator("cuda").manual_seed(step)
        x = Bucket(torch.randn(spec.numel, generator=generator, device="cuda") * 10.0 ** (step - 2), spec)
        if step == 3:
            x.flat.round_()
        assert isinstance(passes_for(x), GpuPasses)
        fast = there_and_back(codec, x, At(step=step))
        withdraw(gpu_passes)
        try:
            slow = there_and_back(codec, x, At(step=step))
        finally:
            offer(gpu_passes)
        for one, other in zip(fast, slow, strict=True):
            assert torch.equal(one, other), step


def test_a_code_that_is_none_is_refused_before_anything_is_added() -> None:
    spec, codec = SPECS[0], terngrad()
    wire = torch.full((codec.capacity(spec, At()) - 4 * len(spec.segments),), 255, dtype=torch.uint8, device="cuda")
    wire[: 4 * len(spec.segments)] = 0
    out = Bucket.zeros(spec)
    with pytest.raises(PayloadError, match="none"):
        codec.decode_(out, Payload(wire), {}, At())
    assert not bool(out.flat.any())


@pytest.mark.parametrize("recipe", [one_bit(), terngrad_recipe()], ids=lambda recipe: recipe.name)
def test_a_run_is_the_same_with_and_without(recipe: AnyRecipe) -> None:
    def one(rank: int) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(30, 200), nn.Tanh(), nn.Linear(200, 10)).cuda()
        with join(recipe, model, torch.optim.SGD(model.parameters(), lr=0.01)) as wire:
            for step in range(5):
                x = torch.randn(8, 30, generator=torch.Generator().manual_seed(10 * step + rank)).cuda()
                model(x).square().mean().backward()
                wire.step()
        return [p.detach().cpu() for p in model.parameters()]

    fast = together(3, one)[0]
    withdraw(gpu_passes)
    try:
        slow = together(3, one)[0]
    finally:
        offer(gpu_passes)
    for a, b in zip(fast, slow, strict=True):
        assert torch.equal(a, b)
