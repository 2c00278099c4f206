"""What travels: tensors packed end to end, still addressed by their canonical names.

    flat   ├──────── fc1.weight ────────┤├ fc1.bias ┤├──── fc2.weight ────┤
           offset 0                      offset 12    offset 16

A `Segment` is one tensor's place, a `Spec` the whole layout, a `Bucket` a layout with its memory.
Codecs act on segments and state is keyed by their names, so the size of a bucket is an execution hint:
it changes how many messages there are and nothing else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod

import torch
from torch import Tensor


def canonical(name: str) -> str:
    """A parameter's name without what DDP (in front) and torch.compile (anywhere) add to it.

    >>> canonical("module._orig_mod.fc.weight")
    'fc.weight'
    """
    plain = ".".join(part for part in name.split(".") if part != "_orig_mod")
    return plain.removeprefix("module.")


@dataclass(frozen=True)
class Segment:
    """One tensor's place in a bucket.

    A tensor of two or more dimensions has ``shape[0]`` rows, any other tensor is one row. ``first_row`` is
    not 0 only in a piece that `Spec.cut` made.

    >>> s = Segment("w", 0, (3, 2, 2)); (s.numel, s.rows, s.row_numel)
    (12, 3, 4)
    """

    name: str
    offset: int
    shape: tuple[int, ...]
    first_row: int = 0

    @cached_property
    def numel(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def rows(self) -> int:
        """Independent rows: output units of a matrix, output channels of a convolution."""
        return self.shape[0] if len(self.shape) > 1 else 1

    @property
    def row_numel(self) -> int:
        """Elements in one row."""
        return prod(self.shape[1:]) if len(self.shape) > 1 else self.numel

    @property
    def key(self) -> str:
        """The name state is stored under; a piece of a tensor says which rows it holds."""
        return self.name if self.first_row == 0 else f"{self.name}@{self.first_row}"


@dataclass(frozen=True)
class Spec:
    """The layout of a bucket: segments end to end, one dtype, one device.

    >>> Spec.pack([("w", (2, 3)), ("b", (2,))]).numel
    8
    """

    segments: tuple[Segment, ...]
    dtype: torch.dtype = torch.float32
    device: str = "cpu"

    @classmethod
    def pack(
        cls, shapes: Iterable[tuple[str, tuple[int, ...]]], dtype: torch.dtype = torch.float32, device: str = "cpu"
    ) -> Spec:
        """Lay tensors end to end in the given order."""
        segments: list[Segment] = []
        offset = 0
        for name, shape in shapes:
            segments.append(Segment(name, offset, tuple(shape)))
            offset += segments[-1].numel
        return cls(tuple(segments), dtype, device)

    @cached_property
    def _hash(self) -> int:
        return hash((self.segments, self.dtype, self.device))

    def __hash__(self) -> int:
        """Counted once: tables are looked up by layout in every step."""
        return self._hash

    @cached_property
    def numel(self) -> int:
        """Elements of all segments."""
        return sum(segment.numel for segment in self.segments)

    @cached_property
    def places(self) -> dict[str, Segment]:
        """Segments by the names that state is stored under."""
        return {segment.key: segment for segment in self.segments}

    @property
    def nbytes(self) -> int:
        """Bytes of the uncompressed bucket."""
        return self.numel * self.dtype.itemsize

    def cut(self, pieces: int) -> tuple[tuple[int, Spec], ...]:
        """Cut into ``pieces`` of about equal size between rows: (start in the flat tensor, layout) each.

        A piece may be empty when there are fewer rows than pieces.

        >>> [(start, spec.numel) for start, spec in Spec.pack([("w", (3, 4)), ("b", (2,))]).cut(2)]
        [(0, 8), (8, 6)]
        """
        if pieces not in self._cuts:
            ends = self._row_ends()
            inner = [ends[bisect_left(ends, -(-self.numel * k // pieces))] for k in range(1, pieces)]
            edges = [0, *inner, self.numel]
            self._cuts[pieces] = tuple((lo, self._between(lo, hi)) for lo, hi in pairwise(edges))
        return self._cuts[pieces]

    @cached_property
    def _cuts(self) -> dict[int, tuple[tuple[int, Spec], ...]]:
        return {}  # made once: every step asks, and what is kept for a layout is found by it

    def _row_ends(self) -> list[int]:
        ends = [0]
        for s in self.segments:
            ends.extend(s.offset + s.row_numel * (row + 1) for row in range(s.rows) if s.numel)
        return ends

    def _between(self, lo: int, hi: int) -> Spec:
        kept = []
        for s in self.segments:
            start, stop = max(lo, s.offset), min(hi, s.offset + s.numel)
            if start >= stop:
                continue
            skipped, rows = (start - s.offset) // s.row_numel, (stop - start) // s.row_numel
            shape = (rows, *s.shape[1:]) if len(s.shape) > 1 else s.shape
            kept.append(Segment(s.name, start - lo, shape, s.first_row + skipped))
        return Spec(tuple(kept), self.dtype, self.device)


@dataclass(frozen=True)
class Outer:
    """Thin factors of a matrix, one row of each a sample: the N×M matrix is a multiple of uᵀ·v."""

    u: Tensor  # K×N
    v: Tensor  # K×M

    @property
    def samples(self) -> int:
        """K."""
        return self.u.shape[0]


@dataclass(frozen=True)
class Few:
    """What a bucket holds at some ascending positions; its tensors are 0 elsewhere, but for those of some names."""

    index_K: Tensor  # noqa: N815
    value_K: Tensor  # noqa: N815
    but: frozenset[str]


class Bucket(Mapping[str, Tensor]):
    """A flat tensor and its layout; ``bucket[name]`` is a view in the tensor's own shape.

    ``aside`` may hold factors of some of its matrices, for codecs that can use them; the values do not depend on it.
    ``loose`` holds tensors, and a factor each, that are not in ``flat`` yet: only a compressor that says that it takes
    them (`takes_loose`) is given such a bucket, and reads them where they lie.
    ``few`` holds a sparse sum that is not in ``flat`` yet: only a bucket that ``may_be_few`` is left like that.

    >>> b = Bucket.zeros(Spec.pack([("w", (2, 2)), ("b", (2,))])); b["b"].add_(1); b.flat
    tensor([1., 1.])
    tensor([0., 0., 0., 0., 1., 1.])
    """

    __slots__ = ("_places", "_views", "aside", "few", "flat", "loose", "may_be_few", "spec")

    def __init__(self, flat: Tensor, spec: Spec) -> None:
        assert flat.dim() == 1 and flat.numel() == spec.numel, (tuple(flat.shape), spec.numel)
        self.flat = flat
        self.spec = spec
        self.aside: dict[str, Outer] = {}
        self.loose: dict[str, tuple[Tensor, float]] = {}
        self._places = spec.places
        self._views: dict[str, Tensor] = {}  # made once: a step asks for each twice
        self.few: Few | None = None
        self.may_be_few = False

    @classmethod
    def zeros(cls, spec: Spec) -> Bucket:
        """A bucket of zeros."""
        return cls(torch.zeros(spec.numel, dtype=spec.dtype, device=spec.device), spec)

    def __getitem__(self, key: str) -> Tensor:
        if key not in self._views:
            place = self._places[key]
            self._views[key] = self.flat[place.offset : place.offset + place.numel].view(place.shape)
        return self._views[key]

    def place(self, key: str) -> Segment:
        """Where a tensor lies."""
        return self._places[key]

    def fasten_(self) -> None:
        """Put what is loose, or few, into its place."""
        for key, (tensor, factor) in self.loose.items():
            torch.mul(tensor, factor, out=self[key])
        self.loose.clear()
        if self.few is not None:
            for key in self._places.keys() - self.few.but:
                self[key].zero_()
            self.flat[self.few.index_K] = self.few.value_K
            self.few = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def segments(self) -> Iterator[tuple[Segment, Tensor]]:
        """Each segment with its flat view."""
        for s in self.spec.segments:
            yield s, self.flat[s.offset : s.offset + s.numel]

    def cut(self, pieces: int) -> list[Bucket]:
        """Views of the pieces of `Spec.cut`."""
        return [Bucket(self.flat[start : start + spec.numel], spec) for start, spec in self.spec.cut(pieces)]


State = dict[str, Mapping[str, Tensor]]
"""What a part keeps between steps: field → tensor name → tensor. A `Bucket` is such a mapping."""
