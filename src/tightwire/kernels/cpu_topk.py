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

from tightwire.algebra.codec import Ask, Codec, Encoded, Payload, Sent
from tightwire.algebra.compressor import Composed, Compressed, Compressor, Kept, refuse_not_finite
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.knob import value_at
from tightwire.algebra.memory import Memory, bucket_of
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.choose import Choose, Share, Vectors
from tightwire.codecs.dense import dense
from tightwire.codecs.topk import TopK, kept, largest
from tightwire.kernels.compiled import compiled
from tightwire.memories.momentum import MomentumCorrection
from tightwire.memories.residual import Residual

SPARSE = 0.3  # a denser selection is no search for few
MANY, FEW = 5.0, 64  # survivors, in parts of those wanted and beyond them, that are fine


@dataclass
class Edge:
    """From which magnitude on to look for the largest of a tensor. Follows how the last selected magnitude moves.

    Too high an edge costs a second search, too low a one many survivors.
    """

    least: float  # the smallest magnitude that was selected
    factor: float = 0.95

    @property
    def guess(self) -> float:
        """Where to look in the next step."""
        return self.least * self.factor

    def learn(self, least: float, survivors: int, wanted: int) -> None:
        """Take in what a search found."""
        if survivors < wanted:
            self.factor *= 0.97
        elif survivors > MANY * wanted + FEW:
            self.factor = min(1.1, self.factor * (1.04 if survivors > 3 * MANY * wanted + FEW else 1.01))
        self.least = least


@dataclass
class KeptEdges(Kept):
    """Both parts' state, and from which magnitudes on to look; only speed depends on the latter."""

    edges: dict[str, Edge] = field(default_factory=dict)
    searcher: Any = None
    added: list[Any] = field(default_factory=list)  # gaps of the payloads whose sum the bucket holds …
    version: int = -1  # … as long as nobody has written into it since


@dataclass(frozen=True)
class FusedTopK:
    """`Composed(memory, codec)`, faster. ``codec`` is a top-k, or one beside a codec for vectors."""

    memory: MomentumCorrection | Residual
    codec: TopK | Choose
    from_numel: int = 1 << 16  # smaller buckets are faster without a kernel
    takes_loose: ClassVar[bool] = True

    def init(self, spec: Spec) -> Kept:
        """State before the first step."""
        return KeptEdges(self.memory.init(spec), self.codec.init(spec))

    def compress(self, x: Bucket, kept: Kept, at: At) -> Generator[Ask, Tensor, Compressed]:
        """Update and select in one pass, then write."""
        top = self.codec.rest if isinstance(self.codec, Choose) else self.codec
        assert isinstance(top, TopK)
        density = value_at(top.density, at)
        worth_it = x.spec.numel >= max(1, self.from_numel) and density <= SPARSE and x.spec.dtype == torch.float32
        kernel = (
            compiled("numba", "selecting the largest gradients") if worth_it and isinstance(kept, KeptEdges) else None
        )
        if kernel is None:
            x.fasten_()
            return (yield from Composed(self.memory, self.codec).compress(x, kept, at))
        assert isinstance(kept, KeptEdges)
        owed = bucket_of(kept.memory, "residual")
        if isinstance(self.codec, TopK):
            index_K = self._select(kernel, x, kept, density, frozenset())
            wire, value_K = top.write(index_K, owed.flat[index_K], x.spec)
            return Compressed(Payload(wire), PickedSent(index_K, value_K, None), owed)
        vectors, rest = self.codec.shares(x.spec)
        index_K = self._select(kernel, x, kept, density, frozenset(s.key for s in vectors.segments))
        encoded: Encoded = yield from self.codec.choices[0][1].encode(vectors.take(owed), {}, at)
        wire, value_K = top.write(rest.inside(index_K), owed.flat[index_K], rest.spec)
        whole = self.codec.frame([encoded.payload.wire, wire])
        return Compressed(Payload(whole), PickedSent(index_K, value_K, (vectors, encoded.sent)), owed)

    def _select(self, kernel: Any, x: Bucket, kept_: KeptEdges, density: float, passed: frozenset[str]) -> Tensor:
        """Take x in; ascending positions of the largest of what is owed then, none of the tensors passed over."""
        owed, edges = bucket_of(kept_.memory, "residual"), kept_.edges
        correcting = isinstance(self.memory, MomentumCorrection)
        moving = bucket_of(kept_.memory, "velocity") if correcting else owed
        form = self.memory.form if isinstance(self.memory, MomentumCorrection) else "add"
        if kept_.searcher is None:
            kept_.searcher = kernel.Searcher(max(s.numel for s in x.spec.segments))
        chosen = []
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
            index_K, least, survivors = found
            if least < 0:
                index_K = largest(v_N, count)
                least = float(v_N[index_K].abs().min())
            if count:
                edges[s.key].learn(least, survivors, count)
                chosen.append(torch.as_tensor(index_K) + s.offset)
        x.loose.clear()
        return torch.cat(chosen) if chosen else torch.empty(0, dtype=torch.int64)

    def expand_(self, x: Bucket, payloads: Sequence[Payload], kept: Kept, at: At) -> None:
        """One after another, without making anything dense in between."""
        kernel = self._adder(x)
        if kernel is None or not isinstance(kept, KeptEdges):
            Composed(self.memory, self.codec).expand_(x, payloads, kept, at)
            return
        places = self._places(x.spec)
        pieces = [self._pieces(payload.wire) for payload in payloads]
        self._empty(kernel, x, kept, places)
        kept.added = []
        for small, gaps, values in pieces:
            if isinstance(self.codec, Choose):
                vectors = self.codec.shares(x.spec)[0]
                dense().decode_(mine := Bucket.zeros(vectors.spec), Payload(small), {}, at)
                vectors.add_(x, mine)
            if not kernel.scatter(x.flat.numpy(), *places, gaps, values):
                x.flat.zero_()
                raise PayloadError(f"gaps lead to a position beyond a bucket of {x.spec.numel} elements")
            kept.added.append(gaps)
        kept.version = x.flat._version

    def _adder(self, x: Bucket) -> Any:
        """The compiled part, if it reads these payloads."""
        top = self.codec.rest if isinstance(self.codec, Choose) else self.codec
        assert isinstance(top, TopK)
        small = self.codec.choices[0][1] if isinstance(self.codec, Choose) else dense()
        plain = (top.values, top.gaps) == ("float32", "16bit") and x.spec.dtype == torch.float32 and small == dense()
        return compiled("numba", "adding up sparse gradients") if plain and x.spec.numel >= self.from_numel else None

    def _places(self, spec: Spec) -> tuple[Any, Any]:
        """Where tensors begin in the layout of the gaps, and how far from there they lie in the bucket."""
        here = there = spec.segments
        if isinstance(self.codec, Choose):
            rest = self.codec.shares(spec)[1]
            here, there = rest.spec.segments, rest.segments
        begins = np.array([s.offset for s in here] + [here[-1].offset + here[-1].numel if here else 0])
        return begins, np.array([b.offset - a.offset for a, b in zip(here, there, strict=True)] or [0])

    def _pieces(self, wire: Tensor) -> tuple[Tensor, Any, Any]:
        """Vectors, gaps and values of a payload."""
        small, rest = self.codec.pieces(wire) if isinstance(self.codec, Choose) else (wire[:0], wire)
        count, odd = divmod(rest.numel(), 6)
        if odd:
            raise PayloadError(f"a top-k payload of {rest.numel()} bytes is not a whole number of elements")
        plain = rest.clone().numpy()
        return small.clone(), plain[4 * count :].view(np.uint16), plain[: 4 * count].view(np.float32)

    def _empty(self, kernel: Any, x: Bucket, kept_: KeptEdges, places: tuple[Any, Any]) -> None:
        """X ← 0: only where the last sum was added, unless somebody wrote into the bucket since."""
        if kept_.version != x.flat._version:
            x.flat.zero_()
            return
        for gaps in kept_.added:
            kernel.clear(x.flat.numpy(), *places, gaps)
        if isinstance(self.codec, Choose):
            for s in self.codec.shares(x.spec)[0].segments:
                x.flat[s.offset : s.offset + s.numel].zero_()

    def settle(self, done: Compressed, received: Bucket, kept: Kept, at: At) -> None:
        """Keep what was not sent."""
        self.memory.after(done.value, done.sent, received, kept.memory, at)


def _least(flat_N: Tensor, count: int) -> float:
    return float(flat_N[largest(flat_N, count)].abs().min())


@dataclass(frozen=True)
class PickedSent:
    """Some positions, and some vectors whole."""

    index_K: Tensor  # noqa: N815
    value_K: Tensor  # noqa: N815
    vectors: tuple[Share, Sent] | None

    def subtract_from_(self, bucket: Bucket) -> None:
        """Bucket ← bucket − sent."""
        bucket.flat.index_add_(0, self.index_K, self.value_K, alpha=-1)
        if self.vectors is not None:
            share, sent = self.vectors
            mine = share.take(bucket)
            sent.subtract_from_(mine)
            share.put_(bucket, mine)

    def zero_where_sent_(self, bucket: Bucket) -> None:
        """Forget what was selected; a vector that is sent whole has nothing stale."""
        bucket.flat.index_fill_(0, self.index_K, 0)


def suits(memory: Memory, codec: Codec) -> bool:
    """Whether these parts are what the fused kernels do."""
    if not isinstance(memory, MomentumCorrection | Residual) or memory.listens:
        return False
    if isinstance(codec, Choose) and len(codec.choices) == 1:
        which, small = codec.choices[0]
        return isinstance(codec.rest, TopK) and isinstance(which, Vectors) and not small.init(Spec(()))
    return isinstance(codec, TopK)


def fused_topk(memory: Memory, codec: Codec, device: torch.device) -> Compressor | None:
    """This kernel, if it is for these parts."""
    if device.type == "cpu" and suits(memory, codec):
        return FusedTopK(memory, codec)  # type: ignore[arg-type]
    return None
