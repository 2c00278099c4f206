"""Different codecs for different tensors of one message: by dimension, by size, by name.

    by_dimension(vectors=half, rest=topk(0.001))         biases and norms whole, matrices sparse
    by_size(4096, small=dense(), large=topk(0.01))
    by_name(("*embedding*", topk(0.001)), rest=dense())

Each codec sees the tensors that are its own as a bucket of their own; a payload is theirs one after another, each but
the last behind four bytes that say how long it is. Unlike `parts`, which makes recipes and messages of their own,
everything stays in one message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from tightwire.algebra.codec import Codec, Combines, DenseSent, Encoded, Encoding, Payload, Sent, Sparse
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.lengths import length_bytes, read_lengths
from tightwire.algebra.tensors import Bucket, Segment, Spec, State
from tightwire.algebra.world import At
from tightwire.codecs.dense import dense
from tightwire.codecs.onebit import onebit
from tightwire.codecs.topk import topk

_LENGTH = torch.int32


class Which(Protocol):
    """Says of a tensor whether a codec is for it."""

    def __call__(self, segment: Segment) -> bool:
        """Whether it is."""
        ...


@dataclass(frozen=True)
class Vectors:
    """Tensors of at most one dimension."""

    def __call__(self, segment: Segment) -> bool:
        """Whether it is one."""
        return len(segment.shape) <= 1


@dataclass(frozen=True)
class Small:
    """Tensors of fewer elements. A piece of a tensor that was cut between rows is judged by its own size."""

    numel: int

    def __call__(self, segment: Segment) -> bool:
        """Whether it is one."""
        return segment.numel < self.numel


@dataclass(frozen=True)
class Named:
    """Tensors whose name matches a pattern with ``*`` and ``?``."""

    pattern: str

    def __call__(self, segment: Segment) -> bool:
        """Whether it is one."""
        return fnmatchcase(segment.name, self.pattern)


@dataclass(frozen=True)
class Choose:
    """The first codec whose tensors these are, else ``rest``."""

    choices: tuple[tuple[Which, Codec], ...]
    rest: Codec
    combines: ClassVar[Combines] = "gather"
    identity: ClassVar[bool] = False

    @property
    def codecs(self) -> tuple[Codec, ...]:
        """All of them, the rest last."""
        return (*(codec for _, codec in self.choices), self.rest)

    def init(self, spec: Spec) -> State:
        """Everybody's state, side by side."""
        state: State = {}
        for number, (codec, share) in enumerate(zip(self.codecs, self.shares(spec), strict=True)):
            state |= {f"{number}.{field}": named for field, named in codec.init(share.spec).items()}
        return state

    def encode(self, x: Bucket, state: State, at: At) -> Encoding:
        """One payload after another."""
        wires: list[Tensor] = []
        locals_: list[object] = []
        sents: list[tuple[Share, Sent]] = []
        for number, (codec, share) in enumerate(zip(self.codecs, self.shares(x.spec), strict=True)):
            encoded: Encoded = yield from codec.encode(share.take(x), _own(state, number), at)
            wires.append(encoded.payload.wire)
            locals_.append(encoded.payload.local)
            sents.append((share, encoded.sent))
        return Encoded(Payload(self.frame(wires), local=locals_), ChosenSent(sents))

    def frame(self, wires: Sequence[Tensor]) -> Tensor:
        """Payloads one after another, each but the last behind its length."""
        framed: list[Tensor] = []
        for wire in wires:
            plain = wire.reshape(-1).view(torch.uint8)
            framed += [length_bytes(plain.numel(), _LENGTH, wire.device), plain]
        del framed[-2]
        return torch.cat(framed)

    def decode_(self, out: Bucket, payload: Payload, state: State, at: At) -> None:
        """Each its own piece; all of them, or nothing."""
        (pieces,) = self.pieces([payload.wire.reshape(-1).view(torch.uint8)])
        dense_parts: list[tuple[Share, Bucket]] = []
        sparse_parts: list[tuple[Tensor, Tensor]] = []
        for number, (codec, share, wire) in enumerate(zip(self.codecs, self.shares(out.spec), pieces, strict=True)):
            if isinstance(codec, Sparse):
                index_K, value_K = codec.read(wire, share.spec, at)
                sparse_parts.append((share.outside(index_K), value_K))
                continue
            local = payload.local[number] if payload.local is not None else None
            mine = Bucket.zeros(share.spec)
            codec.decode_(mine, Payload(wire.clone(), local), _own(state, number), at)
            dense_parts.append((share, mine))
        for share, mine in dense_parts:
            share.add_(out, mine)
        for index_K, value_K in sparse_parts:
            out.flat.index_add_(0, index_K, value_K.to(out.flat.dtype))

    def pieces(self, wires: Sequence[Tensor]) -> list[list[Tensor]]:
        """Of every message the payloads that `frame` put one after another."""
        pieces: list[list[Tensor]] = [[] for _ in wires]
        rests = list(wires)
        for _ in self.choices:
            lengths = read_lengths([rest[: _LENGTH.itemsize] for rest in rests], _LENGTH)
            for number, length in enumerate(lengths):
                rest = rests[number][_LENGTH.itemsize :]
                if not 0 <= length <= rest.numel():
                    raise PayloadError(f"a piece of {length} bytes in a payload of {wires[number].numel()}")
                pieces[number].append(rest[:length])
                rests[number] = rest[length:]
        return [[*some, rest] for some, rest in zip(pieces, rests, strict=True)]

    def capacity(self, spec: Spec, at: At) -> int:
        """Everybody's, and the lengths."""
        each = [codec.capacity(share.spec, at) for codec, share in zip(self.codecs, self.shares(spec), strict=True)]
        return sum(each) + _LENGTH.itemsize * len(self.choices)

    def shares(self, spec: Spec) -> tuple[Share, ...]:
        """Which tensors are whose."""
        return _shares(tuple(which for which, _ in self.choices), spec)


@dataclass(frozen=True, eq=False)
class Share:
    """Some tensors of a bucket, and their layout as a bucket of their own."""

    segments: tuple[Segment, ...]
    spec: Spec

    @cached_property
    def spans(self) -> tuple[tuple[int, int, int], ...]:
        """Tensors that lie side by side here and there: where in the whole bucket, where in one's own, how long."""
        found: list[tuple[int, int, int]] = []
        for there, here in zip(self.segments, self.spec.segments, strict=True):
            whole, own, numel = found[-1] if found else (-1, -1, 0)
            if (whole + numel, own + numel) == (there.offset, here.offset):
                found[-1] = (whole, own, numel + here.numel)
            else:
                found.append((there.offset, here.offset, here.numel))
        return tuple(found)

    def take(self, whole: Bucket) -> Bucket:
        """A copy of one's own."""
        if len(self.segments) == len(whole.spec.segments):
            return Bucket(whole.flat, self.spec)
        pieces = self._of_whole(whole)
        return Bucket(torch.cat(pieces) if pieces else whole.flat[:0], self.spec)

    def inside(self, index_K: Tensor) -> Tensor:
        """Positions in the whole bucket, all of them one's own, as positions in one's own bucket."""
        return _moved(index_K, *_begins(self, index_K.device))

    def outside(self, index_K: Tensor) -> Tensor:
        """The reverse of `inside`."""
        there_S, here_S = _begins(self, index_K.device)
        return _moved(index_K, here_S, there_S)

    def add_(self, whole: Bucket, mine: Bucket) -> None:
        """Whole ← whole + mine."""
        if self.spans:
            torch._foreach_add_(self._of_whole(whole), self._of_own(mine))

    def put_(self, whole: Bucket, mine: Bucket) -> None:
        """Whole ← mine, where it is one's own."""
        if self.spans:
            torch._foreach_copy_(self._of_whole(whole), self._of_own(mine))

    def _of_whole(self, whole: Bucket) -> list[Tensor]:
        return [whole.flat[begin : begin + numel] for begin, _, numel in self.spans]

    def _of_own(self, mine: Bucket) -> list[Tensor]:
        return [mine.flat[begin : begin + numel] for _, begin, numel in self.spans]


@lru_cache(maxsize=256)
def _begins(share: Share, device: torch.device) -> tuple[Tensor, Tensor]:
    """Where tensors with elements begin in the whole bucket, and in a bucket of their own; on the device."""
    pairs = [(there.offset, here.offset) for there, here in zip(share.segments, share.spec.segments, strict=True)
             if here.numel]  # fmt: skip
    there_S, here_S = torch.tensor(pairs, dtype=torch.int64).view(-1, 2).unbind(1)
    return there_S.contiguous().to(device), here_S.contiguous().to(device)


def _moved(index_K: Tensor, here_S: Tensor, there_S: Tensor) -> Tensor:
    """Positions in one layout as positions in another layout of the same tensors."""
    if not here_S.numel():
        return index_K
    begin_S = torch.searchsorted(index_K, here_S)  # positions ascend: few tensors are found among many positions
    count_S = torch.diff(begin_S, append=begin_S.new_full((1,), index_K.numel()))
    return index_K + torch.repeat_interleave(there_S - here_S, count_S, output_size=index_K.numel())


@lru_cache(maxsize=1024)
def _shares(choices: tuple[Which, ...], spec: Spec) -> tuple[Share, ...]:
    owners = [next((n for n, which in enumerate(choices) if which(s)), len(choices)) for s in spec.segments]
    shares = []
    for number in range(len(choices) + 1):
        mine = tuple(s for s, owner in zip(spec.segments, owners, strict=True) if owner == number)
        offset, packed = 0, []
        for s in mine:
            packed.append(Segment(s.name, offset, s.shape, s.first_row))
            offset += s.numel
        shares.append(Share(mine, Spec(tuple(packed), spec.dtype, spec.device)))
    return tuple(shares)


def _own(state: State, number: int) -> State:
    prefix = f"{number}."
    return {field.removeprefix(prefix): named for field, named in state.items() if field.startswith(prefix)}


@dataclass(frozen=True)
class ChosenSent:
    """Everybody's `Sent`, each on its own tensors."""

    sents: list[tuple[Share, Sent]]

    def subtract_from_(self, bucket: Bucket) -> None:
        """Bucket ← bucket − sent."""
        for share, sent in self.sents:
            mine = share.take(bucket)
            sent.subtract_from_(mine)
            share.put_(bucket, mine)

    def zero_where_sent_(self, bucket: Bucket) -> None:
        """Forget what was selected. A tensor that is always sent whole has nothing stale to forget."""
        for share, sent in self.sents:
            if not isinstance(sent, DenseSent):
                mine = share.take(bucket)
                sent.zero_where_sent_(mine)
                share.put_(bucket, mine)


def by_dimension(*, vectors: Codec = dense(), rest: Codec) -> Choose:  # noqa: B008 -- a frozen value
    """One codec for tensors of one dimension, one for the others."""
    return Choose(((Vectors(), vectors),), rest)


def by_size(numel: int, *, small: Codec = dense(), large: Codec) -> Choose:  # noqa: B008
    """One codec for tensors of fewer than ``numel`` elements, one for the others."""
    return Choose(((Small(numel), small),), large)


def by_name(*choices: tuple[str, Codec], rest: Codec) -> Choose:
    """Codecs by patterns of names; the first that matches."""
    return Choose(tuple((Named(pattern), codec) for pattern, codec in choices), rest)


examples = (
    by_dimension(rest=topk(0.3)),
    by_size(8, small=onebit(), large=topk(0.2, values="log8", gaps="rice")),
    by_name(("a*", topk(1.0)), ("b*", onebit()), rest=dense()),
)
