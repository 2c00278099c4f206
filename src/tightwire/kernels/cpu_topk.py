"""Top-k behind momentum correction or error feedback on a CPU, fused: one pass over u, v and the gradient.

The result is that of memory and codec composed. What is fast is the way: while u and v are updated, everything above an
edge is noted; the exact selection then happens among a few survivors. The edge is a little below the one of the step
before, and no result depends on it: if too few survive, v is searched again.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from tightwire.algebra.codec import Ask, Codec, Encoded, Payload, Sent, SparseSent
from tightwire.algebra.compressor import Composed, Compressed, Compressor, Kept, refuse_not_finite
from tightwire.algebra.knob import value_at
from tightwire.algebra.memory import Memory, bucket_of
from tightwire.algebra.tensors import Bucket, Few, Spec
from tightwire.algebra.world import At
from tightwire.codecs.choose import Choose, Share
from tightwire.codecs.topk import TopK, kept, largest
from tightwire.kernels.compiled import compiled
from tightwire.kernels.cpu_many import add_marked, mark, marked
from tightwire.kernels.cpu_wire import read, write
from tightwire.kernels.parts import WithVectors, inside, layout, shares_of, suits, topk_of
from tightwire.memories.momentum import MomentumCorrection
from tightwire.memories.residual import Residual

SPARSE = 0.3  # a denser selection is no search for few
FEW_PAYLOADS = 8  # merging lists pays for a few
MANY, FEW = 2.0, 64  # survivors, in parts of those wanted and beyond them, that are fine
FAR_TOO_MANY = 15.0


@dataclass
class Edge:
    """From which magnitude on to look for the largest of a tensor. Follows how the last selected magnitude moves.

    It is thought to move on as it just did. Too high an edge costs a second search, too low a one many survivors.
    """

    least: float  # the smallest magnitude that was selected
    factor: float = 0.95
    trend: float = 1.0  # by what it has grown

    @property
    def guess(self) -> float:
        """Where to look in the next step."""
        return self.least * self.trend * self.factor

    def learn(self, least: float, survivors: int, wanted: int) -> None:
        """Take in what a search found."""
        if survivors < wanted:
            self.factor *= 0.97
        elif survivors > MANY * wanted + FEW:
            self.factor = min(1.1, self.factor * (1.04 if survivors > FAR_TOO_MANY * wanted + FEW else 1.01))
        self.trend = min(2.0, max(0.5, least / self.least)) if self.least > 0 else 1.0
        self.least = least


@dataclass
class KeptEdges(Kept):
    """Both parts' state, and from which magnitudes on to look; only speed depends on the latter."""

    edges: dict[str, Edge] = field(default_factory=dict)
    searcher: Any = None


@dataclass(frozen=True)
class FusedTopK:
    """`Composed(memory, codec)`, faster. ``codec`` is a top-k, or one beside a codec for vectors."""

    memory: MomentumCorrection | Residual
    codec: TopK | Choose
    from_numel: int = 1 << 16  # smaller buckets are faster without a kernel
    takes_loose: ClassVar[bool] = True
    settles_early: ClassVar[bool] = True  # payloads are bytes of their own, and no memory here listens

    def init(self, spec: Spec) -> Kept:
        """State before the first step."""
        return KeptEdges(self.memory.init(spec), self.codec.init(spec))

    def compress(self, x: Bucket, kept: Kept, at: At) -> Generator[Ask, Tensor, Compressed]:
        """Update and select in one pass, then write."""
        top = topk_of(self.codec)
        density = value_at(top.density, at)
        worth_it = self._large(x.spec) and density <= SPARSE and isinstance(kept, KeptEdges)
        kernel = compiled("numba", "selecting the largest gradients", "topk") if worth_it else None
        if kernel is None:
            x.fasten_()
            return (yield from Composed(self.memory, self.codec).compress(x, kept, at))
        assert isinstance(kept, KeptEdges)
        owed = bucket_of(kept.memory, "residual")
        vectors, rest = shares_of(self.codec, x.spec)
        sent: Sent
        if (many := self._many(at)) is not None:
            self._select(kernel, x, kept, density, frozenset(x))
            wire, sent = mark(many, owed, rest, density)
        else:
            passed = frozenset(s.key for s in vectors.segments) if vectors is not None else frozenset[str]()
            index_K, value_K = self._select(kernel, x, kept, density, passed)
            inside_K = index_K if vectors is None else inside(rest, index_K, density)
            wire, value_K = write(top, inside_K, value_K, rest.spec, at)
            sent = SparseSent(index_K, value_K)
        if vectors is None or not isinstance(self.codec, Choose):
            return Compressed(Payload(wire), sent, owed)
        encoded: Encoded = yield from self.codec.choices[0][1].encode(vectors.take(owed), {}, at)
        whole = self.codec.frame([encoded.payload.wire, wire])
        return Compressed(Payload(whole), WithVectors(sent, vectors, encoded.sent), owed)

    def _large(self, spec: Spec) -> bool:
        return spec.numel >= max(1, self.from_numel) and spec.dtype == torch.float32

    def _many(self, at: At) -> Any:
        """The loops for a selection that is no list, if it is none."""
        top = topk_of(self.codec)
        marks = top.positions(at) == "bits" and top.values == "float32"
        return compiled("numba", "selecting many gradients", "many") if marks else None

    def _select(
        self, kernel: Any, x: Bucket, kept_: KeptEdges, density: float, passed: frozenset[str]
    ) -> tuple[Tensor, Tensor]:
        """Take x in; ascending positions and values of the largest of what is owed then, none of those passed over."""
        owed, edges = bucket_of(kept_.memory, "residual"), kept_.edges
        correcting = isinstance(self.memory, MomentumCorrection)
        moving = bucket_of(kept_.memory, "velocity") if correcting else owed
        form = self.memory.form if isinstance(self.memory, MomentumCorrection) else "add"
        if kept_.searcher is None:
            kept_.searcher = kernel.Searcher(max(s.numel for s in x.spec.segments))
        chosen: list[Any] = [np.empty(0, np.int64)]
        values: list[Any] = [np.empty(0, np.float32)]
        for (s, v_N), (_, u_N) in zip(owed.segments(), moving.segments(), strict=True):
            x_N, scale = x.loose.get(s.key) or (x.flat[s.offset : s.offset + s.numel], 1.0)
            count = 0 if s.key in passed else kept(s.numel, density)
            if count and s.key not in edges:
                edges[s.key] = Edge(scale * _least(x_N.view(-1), count))
            found = kept_.searcher.search(
                x_N.view(-1).numpy(), u_N.numpy(), v_N.numpy(), scale=scale, momentum=self.memory.momentum, form=form,
                wanted=count, edge=edges[s.key].guess if count else inf,
            )  # fmt: skip
            if found is None:
                x.fasten_()
                refuse_not_finite(x)
            if not count:
                continue
            index, value, least, survivors = found
            if least < 0:
                index = largest(v_N, count).numpy()
                value = v_N.numpy()[index]
                least = float(abs(value).min())
            edges[s.key].learn(least, survivors, count)
            chosen.append(index + s.offset)
            values.append(value)
        x.loose.clear()
        return torch.from_numpy(np.concatenate(chosen)), torch.from_numpy(np.concatenate(values))

    def expand_(self, x: Bucket, payloads: Sequence[Payload], kept: Kept, at: At) -> None:
        """One after another, without making anything dense in between."""
        loops = compiled("numba", "adding up sparse gradients", "wire") if self._large(x.spec) else None
        if loops is None:
            Composed(self.memory, self.codec).expand_(x, payloads, kept, at)
            return
        top, (vectors, rest) = topk_of(self.codec), shares_of(self.codec, x.spec)
        wires = [payload.wire for payload in payloads]
        whole = None if vectors is None else Bucket.zeros(vectors.spec)
        if whole is not None and isinstance(self.codec, Choose):
            pieces = self.codec.pieces(wires)
            for small, _ in pieces:
                self.codec.choices[0][1].decode_(whole, Payload(small.clone()), {}, at)
            wires = [wire for _, wire in pieces]
        many = self._many(at)
        parts = [marked(many, w, rest, top, at) if many else read(top, w, rest.spec, at) for w in wires]
        x.few = None
        if many or not x.may_be_few or len(parts) > FEW_PAYLOADS:
            x.flat.zero_()
        if vectors is not None and whole is not None:
            vectors.put_(x, whole)
        if many:
            add_marked(many, x, rest, parts)
        else:
            _add(loops, x, rest, parts)

    def settle(self, done: Compressed, received: Bucket, kept: Kept, at: At) -> None:
        """Keep what was not sent."""
        self.memory.after(done.value, done.sent, received, kept.memory, at)


def _least(flat_N: Tensor, count: int) -> float:
    return float(flat_N[largest(flat_N, count)].abs().min())


def _add(loops: Any, x: Bucket, rest: Share, parts: Sequence[tuple[Any, Any]]) -> None:
    """The sum of what payloads carry, in their order: as a list where x may be one, else into x."""
    begins, shifts = layout(rest)
    for index, _ in parts:
        loops.move(index, begins, shifts)
    if not x.may_be_few or len(parts) > FEW_PAYLOADS:
        for index, value in parts:
            loops.add(x.flat.numpy(), index, value)
        return
    (where, total), *others = parts
    for index, value in others:
        where, total = loops.merge(where, total, index, value)
    x.few = Few(torch.from_numpy(where), torch.from_numpy(total), frozenset(x) - {s.key for s in rest.segments})


def fused_topk(memory: Memory, codec: Codec, device: torch.device) -> Compressor | None:
    """This kernel, if it is for these parts."""
    if device.type == "cpu" and suits(memory, codec):
        return FusedTopK(memory, codec)  # type: ignore[arg-type]
    return None
