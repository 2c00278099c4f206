"""The kernels of `triton_bits`, interpreted on a CPU, beside the codecs' own way.

``python -m tests.kernels.interpreted``, as a process of its own: Triton decides when it is imported whether it compiles
or interprets.
"""

from __future__ import annotations

import torch

from tests.codecs.common import bucket
from tests.kernels.passing import there_and_back
from tightwire.algebra.world import At
from tightwire.codecs import passes
from tightwire.codecs.onebit import onebit
from tightwire.codecs.qsgd import qsgd
from tightwire.codecs.terngrad import terngrad
from tightwire.kernels.compiled import compiled
from tightwire.kernels.gpu_bits import GpuPasses

SHAPES = [[(30, 50), (30,), (7, 3, 3)], [(1,)], [(2, 0), (1023,), (1,), (2, 1500)]]
CODECS = [onebit(), terngrad(), terngrad(float("inf"), scaler="own"), qsgd(), qsgd(4, bucket=8, norm="l2"),
          qsgd(1, bucket=16), qsgd(127, bucket=1)]  # fmt: skip


def main() -> None:
    """Compare; silent if all is the same."""
    kernels = compiled("triton", "this comparison", "bits")
    assert kernels is not None
    for shapes in SHAPES:
        for codec in CODECS:
            for step in range(3):
                x = bucket(*shapes, seed=step)
                x.flat.mul_(10.0 ** (step - 1))
                if step == 2:
                    x.flat.round_()  # zeros and ties
                passes._offers.clear()
                slow = there_and_back(codec, x, At(step=step))
                passes.offer(lambda _: GpuPasses(kernels))
                fast = there_and_back(codec, x, At(step=step))
                assert all(torch.equal(one, other) for one, other in zip(fast, slow, strict=True)), (
                    shapes,
                    codec,
                    step,
                )


if __name__ == "__main__":
    main()
