"""Encoding and decoding gradients on a GPU: ResNet-50's tensors, density 0.001, by CUDA events.

    python -m benchmarks.gpu_kernels [--rounds 30]

In one run: the fused kernel, a sampled threshold and an exact top-k in eager PyTorch, and one plain pass over the same
bytes (the floor). Encoding is momentum, accumulation, selection, compaction and clearing; gap coding is not counted.
Beside them one-bit and ternary codes, packed and unpacked by one pass each and by eager PyTorch.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness import write
from tightwire import models
from tightwire.algebra.codec import Codec, Payload, drive
from tightwire.algebra.memory import bucket_of
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.choose import Share
from tightwire.codecs.onebit import onebit, row_means
from tightwire.codecs.passes import offer, passes_for, withdraw
from tightwire.codecs.terngrad import terngrad
from tightwire.codecs.topk import kept, topk
from tightwire.kernels import triton_topk
from tightwire.kernels.gpu_bits import gpu_passes
from tightwire.kernels.gpu_topk import FusedTopKGpu, KeptTables, add_up
from tightwire.memories.momentum import momentum_correction

DENSITY, PAYLOADS, MOMENTUM = 0.001, 8, 0.9
SETTLE = 1000  # steps until what is owed looks as it does in a long run
Contestants = dict[str, Callable[[], object]]


def measured(run: Callable[[], object], refresh: Callable[[], object], rounds: int) -> list[float]:
    """Milliseconds on the device, with fresh gradients each time; a pause before hides how long launching takes."""
    times = []
    for _ in range(rounds + 5):
        refresh()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        torch.cuda._sleep(2_000_000)
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return times[5:]


def contestants(spec: Spec, x: Bucket) -> tuple[Contestants, Callable[[], None]]:
    """All on the same gradients, too large for any cache; and what brings the next ones."""
    ours = FusedTopKGpu(momentum_correction(MOMENTUM), topk(DENSITY))
    state = ours.init(spec)
    assert isinstance(state, KeptTables)
    for step in range(SETTLE):
        done = drive(ours.compress(x, state, At(step=step)), lambda ask: ask.tensor)
        ours.settle(done, x, state, At(step=step))
        x.flat.normal_(0, 1e-3)
    tables = state.tables
    assert tables is not None
    u, v = bucket_of(state.memory, "velocity").flat, bucket_of(state.memory, "residual").flat
    out = torch.empty_like(u), torch.empty_like(u)
    wires, total = [done.payload.wire.clone() for _ in range(PAYLOADS)], Bucket.zeros(spec)

    def fused() -> None:
        ours.launch(triton_topk, x, state, tables)
        v.index_fill_(0, tables.chosen, 0)
        u.index_fill_(0, tables.chosen, 0)

    def next_gradient() -> None:
        ours.judged(x, state, tables)
        x.flat.normal_(0, 1e-3)

    return {
        "fused": fused, **eager(spec, x, u.clone(), v.clone()), "floor": lambda: triton_floor(x.flat, u, v, *out),
        f"decode of {PAYLOADS}": lambda: add_up(triton_topk, total, wires, Share(spec.segments, spec)),
    }, next_gradient  # fmt: skip


def eager(spec: Spec, x: Bucket, u: Tensor, v: Tensor) -> Contestants:
    """What PyTorch does without a kernel, on velocity and residual of its own."""
    wanted = [kept(s.numel, DENSITY) for s in spec.segments]

    def clear(index: Tensor) -> None:
        u.index_fill_(0, index, 0)
        v.index_fill_(0, index, 0)

    def sampled() -> None:
        u.mul_(MOMENTUM).add_(x.flat)
        v.add_(u)
        size = v.abs()
        sample = size[::100]
        edge = sample.topk(max(1, int(DENSITY * sample.numel()))).values[-1]
        clear(torch.nonzero(size > edge).flatten())

    def exact() -> None:
        u.mul_(MOMENTUM).add_(x.flat)
        v.add_(u)
        clear(torch.topk(v.abs(), sum(wanted), sorted=False).indices)

    return {"eager, sampled threshold": sampled, "eager, exact top-k": exact}


def packing(spec: Spec, x: Bucket) -> Contestants:
    """Bits and ternary codes: the kernels, and the codecs' own way."""
    fast, at, out = passes_for(x), At(), Bucket.zeros(spec)
    assert fast is not None
    mean_R2 = torch.cat([row_means(flat.view(s.rows, s.row_numel)) for s, flat in x.segments()])
    scale_S = torch.stack([flat.abs().max() for _, flat in x.segments()])
    bits_B, codes_B = fast.signs(x, mean_R2)[0], fast.ternary(x, x.flat, scale_S, at)[0]
    ways: Contestants = {
        "one-bit, packed": lambda: fast.signs(x, mean_R2),
        "one-bit, added": lambda: fast.add_signs_(out, bits_B, mean_R2),
        "ternary, packed": lambda: fast.ternary(x, x.flat, scale_S, at),
        "ternary, added": lambda: fast.add_ternary_(out, codes_B, scale_S),
    }
    codecs: dict[str, tuple[Codec, Tensor]] = {
        "one-bit": (onebit(), torch.cat([mean_R2.flatten().view(torch.uint8), bits_B])),
        "ternary": (terngrad(float("inf"), scaler="own"), torch.cat([scale_S.view(torch.uint8), codes_B])),
    }
    for name, (codec, wire) in codecs.items():
        for way, wrapped in (("fast", lambda run: run()), ("eager", without_kernels)):

            def encode(codec: Codec = codec, wrapped: Any = wrapped) -> object:
                return wrapped(lambda: drive(codec.encode(x, {}, at), lambda ask: ask.tensor))

            def decode(codec: Codec = codec, wire: Tensor = wire, wrapped: Any = wrapped) -> object:
                return wrapped(lambda: codec.decode_(out, Payload(wire), {}, at))

            ways |= {f"{name} codec, encode, {way}": encode, f"{name} codec, decode, {way}": decode}
    return ways


def without_kernels(run: Callable[[], object]) -> object:
    """A run that finds nothing offered."""
    withdraw(gpu_passes)
    try:
        return run()
    finally:
        offer(gpu_passes)


def triton_floor(x: torch.Tensor, u: torch.Tensor, v: torch.Tensor, *out: torch.Tensor) -> None:
    """Read three arrays and write two: the bytes that any encoder moves, by a compiled elementwise pass."""
    _pass(x, u, v, out[0], out[1])


@torch.compile
def _pass(x: torch.Tensor, u: torch.Tensor, v: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    speed = u * MOMENTUM + x
    a.copy_(speed)
    b.copy_(v + speed)


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    net = models.make("resnet50", inputs=(3, 224, 224), classes=1000)
    spec = Spec.pack([(name, tuple(p.shape)) for name, p in net.named_parameters()], device="cuda")
    x = Bucket(torch.randn(spec.numel, device="cuda") * 1e-3, spec)
    runs, refresh = contestants(spec, x)
    times = {name: measured(run, refresh, rounds) for name, run in runs.items()}
    packers = packing(spec, Bucket(torch.randn(spec.numel, device="cuda") * 1e-3, spec))
    times |= {name: measured(run, lambda: None, rounds) for name, run in packers.items()}
    figures = {name: {"median_ms": statistics.median(t), "least_ms": min(t)} for name, t in times.items()}
    write("gpu_kernels", {"elements": spec.numel, "tensors": len(spec.segments), "density": DENSITY, "ms": figures})


if __name__ == "__main__":
    main()
