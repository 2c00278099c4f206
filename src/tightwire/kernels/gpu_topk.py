"""Top-k behind momentum correction or error feedback on a GPU, fused.

The kernels are in `kernels.triton_topk`; here are the tables that they need. The result is that of memory and codec
composed.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from tightwire.algebra.codec import Ask, Codec, Encoded, Payload, SparseSent
from tightwire.algebra.compressor import Composed, Compressed, Compressor, Kept, refuse_not_finite
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.knob import value_at
from tightwire.algebra.memory import Memory, bucket_of
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.choose import Choose, Share
from tightwire.codecs.topk import TopK, kept, largest
from tightwire.kernels.compiled import compiled
from tightwire.kernels.cpu_topk import FEW, SPARSE
from tightwire.kernels.parts import WithVectors, layout, shares_of, suits, topk_of
from tightwire.memories.momentum import MomentumCorrection
from tightwire.memories.residual import Residual

_BLOCK = 1024
_CHUNK = 4096
_ROOM = 4  # slots for survivors, as a multiple of those wanted
_MANY = 3.0  # survivors, in parts of those wanted, that are fine
_FORMS = {"add": 0, "heavy-ball": 1, "nesterov": 2}


@dataclass
class KeptTables(Kept):
    """Both parts' state, and what the kernels need; only speed depends on the latter."""

    tables: Tables | None = None


class Tables:
    """Blocks, slots and edges of one layout at one density, on the device."""

    def __init__(self, spec: Spec, counts: list[int], device: torch.device) -> None:
        def ints(values: list[int], dtype: torch.dtype = torch.int32) -> Tensor:
            return torch.tensor(values, dtype=dtype).to(device)

        self.counts = counts
        blocks = [
            (low, min(_BLOCK, s.offset + s.numel - low), number)
            for number, s in enumerate(spec.segments)
            for low in range(s.offset, s.offset + s.numel, _BLOCK)
        ]
        self.blocks = len(blocks)
        self.low = ints([low for low, _, _ in blocks], torch.int64)
        self.size = ints([size for _, size, _ in blocks])
        self.owner = ints([number for _, _, number in blocks])
        large = [number for number, count in enumerate(counts) if count]
        rooms = [_ROOM * count + 4 * FEW if count else 0 for count in counts]
        self.large = len(large)
        self.large_owner = ints(large)
        self.wanted = ints(counts)
        self.slot_cap = ints(rooms)
        self.slot_base = ints([sum(rooms[:n]) for n in range(len(rooms))])
        self.out_base = ints([sum(counts[:n]) for n in range(len(counts))])
        self.place = torch.empty(sum(rooms), dtype=torch.int64, device=device)
        self.bits = torch.empty(sum(rooms), dtype=torch.int32, device=device)
        self.chosen = torch.empty(sum(counts), dtype=torch.int64, device=device)
        self.count = torch.zeros(len(counts), dtype=torch.int32, device=device)
        self.least = torch.zeros(len(counts), device=device)
        self.magnitude = torch.zeros(len(counts), device=device)
        self.factor = torch.full((len(counts),), 0.95, device=device)
        self.edge = torch.full((len(counts),), float("inf"), device=device)
        self.flag = torch.zeros(1, dtype=torch.int32, device=device)
        self.place_bits = max(1, spec.numel.bit_length())

    def begin(self, x: Bucket) -> None:
        """The first edges, from the first gradient."""
        sizes = [
            float(flat[largest(flat, count)].abs().min()) if count else 0.0
            for (_, flat), count in zip(x.segments(), self.counts, strict=True)
        ]
        self.magnitude.copy_(torch.tensor(sizes))
        self.edge.copy_(torch.where(self.wanted > 0, self.magnitude * self.factor, float("inf")))


@dataclass(frozen=True)
class FusedTopKGpu:
    """`Composed(memory, codec)` on a GPU, faster."""

    memory: MomentumCorrection | Residual
    codec: TopK | Choose
    from_numel: int = 1 << 16
    takes_loose: ClassVar[bool] = False

    def init(self, spec: Spec) -> Kept:
        """State before the first step."""
        return KeptTables(self.memory.init(spec), self.codec.init(spec))

    def compress(self, x: Bucket, kept: Kept, at: At) -> Generator[Ask, Tensor, Compressed]:
        """Update and select, then write."""
        top = topk_of(self.codec)
        density = value_at(top.density, at)
        worth_it = x.spec.numel >= max(1, self.from_numel) and density <= SPARSE and x.spec.dtype == torch.float32
        kernel = compiled("triton", "selecting the largest gradients on the GPU", "topk") if worth_it else None
        if kernel is None or not isinstance(kept, KeptTables):
            return (yield from Composed(self.memory, self.codec).compress(x, kept, at))
        owed = bucket_of(kept.memory, "residual")
        index_K = self.select(kernel, x, kept, density)
        if isinstance(self.codec, TopK):
            wire, value_K = top.write(index_K, owed.flat[index_K], x.spec, at)
            return Compressed(Payload(wire), SparseSent(index_K, value_K), owed)
        vectors, rest = self.codec.shares(x.spec)
        encoded: Encoded = yield from self.codec.choices[0][1].encode(vectors.take(owed), {}, at)
        wire, value_K = top.write(rest.inside(index_K), owed.flat[index_K], rest.spec, at)
        whole = self.codec.frame([encoded.payload.wire, wire])
        return Compressed(Payload(whole), WithVectors(SparseSent(index_K, value_K), vectors, encoded.sent), owed)

    def select(self, kernel: Any, x: Bucket, kept_: KeptTables, density: float) -> Tensor:
        """Take x in; ascending positions of the largest of what is owed then."""
        tables = self.tables(x, kept_, density)
        self.launch(kernel, x, kept_, tables)
        return self.judged(x, kept_, tables)

    def tables(self, x: Bucket, kept_: KeptTables, density: float) -> Tables:
        """Those of this layout and density, made anew when the density changes."""
        passed = {s.key for s in self.codec.shares(x.spec)[0].segments} if isinstance(self.codec, Choose) else set()
        counts = [0 if s.key in passed else kept(s.numel, density) for s in x.spec.segments]
        if kept_.tables is None or kept_.tables.counts != counts:
            kept_.tables = Tables(x.spec, counts, x.flat.device)
            refuse_not_finite(x)
            kept_.tables.begin(x)
        return kept_.tables

    def launch(self, kernel: Any, x: Bucket, kept_: KeptTables, t: Tables) -> None:
        """Both passes. Nothing here waits for the device."""
        owed = bucket_of(kept_.memory, "residual")
        correcting = isinstance(self.memory, MomentumCorrection)
        moving = bucket_of(kept_.memory, "velocity") if correcting else owed
        form = self.memory.form if isinstance(self.memory, MomentumCorrection) else "add"
        t.flag.zero_()
        kernel.sweep[(t.blocks,)](
            x.flat, moving.flat, owed.flat, t.low, t.size, t.owner, t.edge, t.slot_base, t.slot_cap, t.count, t.place,
            t.bits, t.flag, self.memory.momentum, FORM=_FORMS[form], BLOCK=_BLOCK, num_warps=8, enable_fp_fusion=False,
        )  # fmt: skip
        if t.large:
            kernel.choose[(t.large,)](
                t.large_owner, t.slot_base, t.slot_cap, t.count, t.wanted, t.out_base, t.place, t.bits, t.chosen,
                t.least, t.flag, CHUNK=_CHUNK, PLACE_BITS=t.place_bits, num_warps=8,
            )  # fmt: skip
        tensors = len(t.counts)
        kernel.learn[(-(-tensors // 256),)](
            tensors, t.count, t.wanted, t.least, t.magnitude, t.factor, t.edge, _MANY, FEW, CHUNK=256
        )

    def judged(self, x: Bucket, kept_: KeptTables, t: Tables) -> Tensor:
        """What was chosen, once it is known to be right: edges that were too high are made up for."""
        state = int(t.flag)
        if state & 1:
            refuse_not_finite(x)
        if state & 2:
            owed = bucket_of(kept_.memory, "residual")
            found = zip(owed.segments(), t.counts, t.least.tolist(), t.out_base.tolist(), strict=True)
            for number, ((_, flat), count, least, base) in enumerate(found):
                if count and least < 0:
                    index = largest(flat, count)
                    t.chosen[base : base + count] = index + x.spec.segments[number].offset
                    t.magnitude[number] = flat[index].abs().min()
                    t.edge[number] = t.magnitude[number] * t.factor[number]
        return t.chosen.sort().values

    def expand_(self, x: Bucket, payloads: Sequence[Payload], kept: Kept, at: At) -> None:
        """Positions of all payloads at once, then values one payload after another: the same bits on every rank."""
        top = topk_of(self.codec)
        kernel = compiled("triton", "adding up sparse gradients on the GPU", "topk")
        plain = (top.values, top.positions(at)) == ("float32", "16bit") and x.spec.dtype == torch.float32
        vectors, rest = shares_of(self.codec, x.spec)
        pieces = self._pieces([payload.wire for payload in payloads])
        if kernel is None or not plain or any(selected.numel() % 6 for _, selected in pieces):
            Composed(self.memory, self.codec).expand_(x, payloads, kept, at)
            return
        astray = add_up(kernel, x, [selected for _, selected in pieces], rest)
        if vectors is not None and isinstance(self.codec, Choose):
            whole = Bucket.zeros(vectors.spec)
            for small, _ in pieces:
                self.codec.choices[0][1].decode_(whole, Payload(small.clone()), {}, at)
            vectors.put_(x, whole)
        if int(astray):
            raise PayloadError(f"gaps lead to a position beyond a bucket of {rest.spec.numel} elements")

    def _pieces(self, wires: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """Every payload's vectors, and what was selected."""
        if isinstance(self.codec, TopK):
            return [(wire[:0], wire) for wire in wires]
        return [(small, selected) for small, selected in self.codec.pieces(wires)]

    def settle(self, done: Compressed, received: Bucket, kept: Kept, at: At) -> None:
        """Keep what was not sent."""
        self.memory.after(done.value, done.sent, received, kept.memory, at)


def add_up(kernel: Any, x: Bucket, wires: Sequence[Tensor], rest: Share) -> Tensor:
    """X ← the sum of payloads of float32 values and 16-bit gaps; returns whether a gap led astray, without waiting.

    Gaps lead through the tensors of ``rest`` as if nothing lay between them.
    """
    counts = [wire.numel() // 6 for wire in wires]
    device = x.flat.device
    begins = [sum(counts[:n]) for n in range(len(counts))]
    bases = torch.tensor([*zip(begins, counts, strict=True)], dtype=torch.int32).to(device, non_blocking=True)
    values = torch.cat([wire[: 4 * count] for wire, count in zip(wires, counts, strict=True)]).view(torch.float32)
    gaps = torch.cat([wire[4 * count :] for wire, count in zip(wires, counts, strict=True)]).view(torch.int16)
    index = torch.empty(sum(counts), dtype=torch.int64, device=device)
    astray = torch.zeros(1, dtype=torch.int32, device=device)
    kernel.positions[(len(wires),)](gaps, bases, index, astray, rest.spec.numel, CHUNK=2048, num_warps=16)
    if len(rest.segments) < len(x.spec.segments) and rest.segments:
        begin_S, shift_S = _ways(rest, device)
        index += shift_S[torch.searchsorted(begin_S, index, right=True) - 1]
    x.flat.zero_()
    for begin, count in zip(begins, counts, strict=True):
        if count:
            kernel.scatter[(-(-count // 1024),)](x.flat, index, values, begin, count, CHUNK=1024)
    return astray


@lru_cache(maxsize=256)
def _ways(rest: Share, device: torch.device) -> tuple[Tensor, Tensor]:
    """Where tensors begin in a bucket of their own, and how far they lie from there in the whole one; on the device."""
    begins, shifts = layout(rest)
    return torch.from_numpy(begins[:-1].copy()).to(device), torch.from_numpy(shifts).to(device)


def fused_topk_gpu(memory: Memory, codec: Codec, device: torch.device) -> Compressor | None:
    """This kernel, if it is for these parts."""
    if device.type == "cuda" and suits(memory, codec):
        return FusedTopKGpu(memory, codec)  # type: ignore[arg-type]
    return None
