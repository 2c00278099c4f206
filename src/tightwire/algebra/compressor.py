"""Memory and codec as one: the unit that a fused kernel may replace.

`Composed` is the reference. A kernel that does the same in fewer passes over memory implements `Compressor`, is
found by `tightwire.kernels.find`, and must satisfy one law: the same result as the composed one.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tightwire.algebra.codec import Ask, Codec, Encoded, Payload, Sent
from tightwire.algebra.doubts import asked_at_the_end
from tightwire.algebra.errors import NotFiniteError
from tightwire.algebra.memory import Memory
from tightwire.algebra.tensors import Bucket, Spec, State
from tightwire.algebra.world import At


@dataclass
class Kept:
    """Both parts' state for one bucket."""

    memory: State
    codec: State


@dataclass(frozen=True)
class Compressed:
    """One worker's contribution, and what `settle` needs when the exchange is over."""

    payload: Payload
    sent: Sent
    value: Bucket


class Compressor(Protocol):
    """Remember, encode, send; then keep the rest."""

    @property
    def memory(self) -> Memory:
        """The memory this compressor stands for."""
        ...

    @property
    def codec(self) -> Codec:
        """The codec this compressor stands for."""
        ...

    def init(self, spec: Spec) -> Kept:
        """State before the first step."""
        ...

    def compress(self, x: Bucket, kept: Kept, at: At) -> Generator[Ask, Tensor, Compressed]:
        """Take in ``x``, return what goes on the wire. ``x`` may be overwritten afterwards."""
        ...

    def expand_(self, x: Bucket, payloads: Sequence[Payload], kept: Kept, at: At) -> None:
        """X ← the sum of what payloads carry, added in their order."""
        ...

    def settle(self, done: Compressed, received: Bucket, kept: Kept, at: At) -> None:
        """Keep what was not sent."""
        ...


@dataclass(frozen=True)
class Composed:
    """The reference compressor: any memory with any codec."""

    memory: Memory
    codec: Codec

    def init(self, spec: Spec) -> Kept:
        """State before the first step."""
        return Kept(self.memory.init(spec), self.codec.init(spec))

    def compress(self, x: Bucket, kept: Kept, at: At) -> Generator[Ask, Tensor, Compressed]:
        """Memory first, then codec."""
        if self.memory.keeps or not self.codec.identity:
            refuse_not_finite(x)  # a NaN that enters a memory never leaves it, and a codec may lose it
        value = self.memory.before(x, kept.memory, at)
        encoded: Encoded = yield from self.codec.encode(value, kept.codec, at)
        return Compressed(encoded.payload, encoded.sent, value)

    def expand_(self, x: Bucket, payloads: Sequence[Payload], kept: Kept, at: At) -> None:
        """One after another."""
        x.flat.zero_()
        with asked_at_the_end():
            for payload in payloads:
                self.codec.decode_(x, payload, kept.codec, at)

    def settle(self, done: Compressed, received: Bucket, kept: Kept, at: At) -> None:
        """Give the memory what was sent and what came back."""
        self.memory.after(done.value, done.sent, received, kept.memory, at)


def refuse_not_finite(x: Bucket) -> None:
    """Raise, naming the tensor, if ``x`` holds NaN or infinity."""
    if bool(torch.isfinite(x.flat).all()):
        return
    for segment, flat in x.segments():
        if not bool(torch.isfinite(flat).all()):
            raise NotFiniteError(
                f"the gradient of {segment.name!r} holds NaN or infinity, which cannot be compressed or remembered: "
                "lower the learning rate, clip, or pass the GradScaler to join(scaler=…)"
            )
