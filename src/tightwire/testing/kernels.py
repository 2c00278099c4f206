"""The law of kernels: the same result as the composed memory and codec."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra.compressor import Composed, Compressor
from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At
from tightwire.testing.meeting import meet
from tightwire.testing.strategies import buckets


def check_all(kernel: Compressor) -> None:
    """Payloads decode to the same update, and the same is owed, step after step."""
    reference = Composed(kernel.memory, kernel.codec)

    @given(buckets(), st.integers(1, 4))
    def law(x: Bucket, steps: int) -> None:
        outs = []
        for compressor in (kernel, reference):
            kept = compressor.init(x.spec)
            for step in range(steps):
                at = At(step=step)
                done = meet([compressor.compress(Bucket(x.flat.clone(), x.spec), kept, at)]).results[0]
                out = Bucket.zeros(x.spec)
                early = getattr(compressor, "settles_early", False)  # then as a run does it, before anything came back
                if early:
                    compressor.settle(done, out, kept, at)
                compressor.expand_(out, [done.payload], kept, at)
                if not early:
                    compressor.settle(done, out, kept, at)
                outs.append((compressor, out.flat, dict(kernel.memory.owed(kept.memory))))
        for (_, fast, fast_owed), (_, slow, slow_owed) in zip(outs[:steps], outs[steps:], strict=True):
            torch.testing.assert_close(fast, slow, rtol=1e-5, atol=1e-6)
            for name in slow_owed:
                torch.testing.assert_close(fast_owed[name], slow_owed[name], rtol=1e-5, atol=1e-6)

    law()
