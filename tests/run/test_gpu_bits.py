"""Bits packed on a GPU: the bytes, what they stand for and what is added equal the codecs' own way, bit for bit."""

import pytest
import torch

from tests.kernels.passing import there_and_back, without
from tests.run.training import weights_after
from tightwire.algebra.codec import Codec, Payload
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.recipe import AnyRecipe
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.onebit import onebit
from tightwire.codecs.passes import passes_for
from tightwire.codecs.qsgd import qsgd
from tightwire.codecs.terngrad import terngrad
from tightwire.kernels.gpu_bits import GpuPasses, gpu_passes
from tightwire.recipes import one_bit
from tightwire.recipes import qsgd as qsgd_recipe
from tightwire.recipes import terngrad as terngrad_recipe

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")]
SPECS = [
    Spec.pack(
        [("w", (300, 500)), ("b", (300,)), ("none", (0, 3)), ("few", (3, 1)), ("c", (64, 3, 7, 7)), ("s", ())],
        device="cuda",
    ),
    Spec.pack([("one", (1,))], device="cuda"),
    Spec.pack([("z", (2, 0)), ("w", (1023,)), ("v", (1,)), ("u", (2, 5000))], device="cuda"),
]
CODECS = [
    onebit(), terngrad(), terngrad(float("inf"), scaler="own"), qsgd(), qsgd(4, bucket=8, norm="l2"),
    qsgd(1, bucket=16), qsgd(127, bucket=1), qsgd(100),
]  # fmt: skip


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
        with without(gpu_passes):
            slow = there_and_back(codec, x, At(step=step))
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


@pytest.mark.parametrize("recipe", [one_bit(), terngrad_recipe(), qsgd_recipe()], ids=lambda recipe: recipe.name)
def test_a_run_is_the_same_with_and_without(recipe: AnyRecipe) -> None:
    fast = weights_after(5, recipe, workers=3, inputs=30, hidden=200, outputs=10)
    with without(gpu_passes):
        slow = weights_after(5, recipe, workers=3, inputs=30, hidden=200, outputs=10)
    for a, b in zip(fast, slow, strict=True):
        assert torch.equal(a, b)
