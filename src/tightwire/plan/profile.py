"""What one worker computes and what coding costs it: measured once, saved as JSON, planned with elsewhere.

Times are seconds on the profiled device with nobody else on it. Whatever shares its cores is in ``slowdown``: measured
time with k workers at once ÷ time of one alone.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

from tightwire.algebra.codec import Codec
from tightwire.algebra.memory import Memory
from tightwire.files import write_json
from tightwire.plan.errors import PlanError

_VERSION = 1


@dataclass(frozen=True)
class TensorShape:
    """One parameter; ``ready_s``: when its gradient is there, from the start of the backward pass."""

    name: str
    shape: tuple[int, ...]
    ready_s: float
    dtype: str = "float32"

    @property
    def numel(self) -> int:
        """Elements."""
        return prod(self.shape)


@dataclass(frozen=True)
class Layer:
    """One layer, in the order of the forward pass. ``activation_nbytes`` is what it passes on, for a whole batch."""

    name: str
    forward_s: float
    backward_s: float
    update_s: float
    nparams: int
    activation_nbytes: int


@dataclass(frozen=True)
class Asked:
    """A question that a codec asks all workers before its payload."""

    kind: str
    nbytes: int


@dataclass(frozen=True)
class Coding:
    """What one memory and codec cost for ``numel`` elements: to encode, to decode one payload, to keep the rest."""

    encode_s: float
    decode_s: float
    settle_s: float
    numel: int
    payload_nbytes: int
    capacity_nbytes: int
    asks: tuple[Asked, ...] = ()


@dataclass(frozen=True)
class Overheads:
    """What software costs a worker: for each message, job, round and step, and for each byte it moves."""

    message_s: float = 0.0  # one message of our executor, both ends
    byte_s: float = 0.0  # of our executor
    job_s: float = 0.0  # handing a bucket to the comm thread and back
    native_s: float = 0.0  # one round of a native collective
    native_byte_s: float = 0.0  # sent, of a native collective
    ask_s: float = 0.0  # one question to a server, and its answer
    ask_byte_s: float = 0.0
    add_byte_s: float = 0.0  # γ: one byte added to another
    serve_byte_s: float = 0.0  # one byte of a contribution applied to a centre, and of the centre encoded
    step_s: float = 0.0  # whatever else a step does
    message_core_s: float = 0.0  # of message_s, what keeps a core busy; the rest is waiting for threads to wake
    native_core_s: float = 0.0  # likewise of native_s
    sync_s: float = 0.0  # what passes take longer where workers who share cores keep step with each other
    ask_core_s: float = 0.0  # of ask_s, what keeps cores busy
    ask_core_byte_s: float = 0.0  # what asking keeps a core busy beyond ask_byte_s, while bytes are on the wire
    keep_core_byte_s: float = 0.0  # likewise at the server
    uneven: float = 0.0  # how unevenly messages share a port: the deviation of the logarithm of their weights
    framed_s: float = 0.0  # one small message that begins with its length (`links.pipes`); 0: as any of our executor
    framed_core_s: float = 0.0  # of framed_s, what keeps a core busy

    def message(self, *, native: bool, framed: bool) -> tuple[float, float]:
        """What a message takes, and keeps a core busy of that."""
        if native:
            return self.native_s, self.native_core_s
        return (
            (self.framed_s, self.framed_core_s) if framed and self.framed_s else (self.message_s, self.message_core_s)
        )


@dataclass(frozen=True)
class Profile:
    """A model on a device with a batch."""

    model: str
    device: str
    batch: int
    tensors: tuple[TensorShape, ...]
    layers: tuple[Layer, ...]
    forward_s: float
    backward_s: float
    update_s: float
    sequential: bool = False
    slowdown: dict[int, float] = field(default_factory=lambda: {1: 1.0})
    batches: dict[int, float] = field(default_factory=dict)
    codings: dict[str, Coding] = field(default_factory=dict)
    overheads: Overheads = Overheads()

    @property
    def compute_s(self) -> float:
        """Forward and backward pass of one batch."""
        return self.forward_s + self.backward_s

    @property
    def nparams(self) -> int:
        """Parameters."""
        return sum(tensor.numel for tensor in self.tensors)

    @property
    def nbytes(self) -> int:
        """Bytes of a gradient in float32."""
        return 4 * self.nparams

    def but(self, **changes: Any) -> Profile:
        """The same profile with some values changed."""
        return replace(self, **changes)

    def slowed(self, workers: int) -> float:
        """By what factor ``workers`` at once on one machine are slower than one, between and beyond what was measured.

        >>> Profile("m", "cpu", 1, (), (), 0, 0, 0, slowdown={1: 1.0, 4: 2.5}).slowed(3)
        2.0
        """
        known = sorted(self.slowdown.items())
        if workers >= known[-1][0]:
            most, factor = known[-1]
            return factor * workers / most if most > 1 else factor
        (low, a), (high, b) = next((left, right) for left, right in pairwise(known) if workers <= right[0])
        return a + (b - a) * (workers - low) / (high - low)

    def compute_of(self, batch: float) -> float:
        """Forward and backward pass of another batch: between the measured ones, in proportion beyond them."""
        known = sorted({**self.batches, self.batch: self.compute_s}.items())
        if len(known) == 1 or batch <= known[0][0]:
            least, seconds = known[0]
            return seconds * batch / least
        pairs = pairwise(known)
        (low, a), (high, b) = next((p for p in pairs if batch <= p[1][0]), (known[-2], known[-1]))
        return a + (b - a) * (batch - low) / (high - low)

    def coding(self, memory: Memory, codec: Codec) -> Coding:
        """What a memory and codec cost: as measured, or as the same kinds with other numbers were."""
        if codec.identity and not memory.keeps:
            return Coding(0.0, 0.0, 0.0, 1, 4, 4)
        key = coding_key(memory, codec)
        if key in self.codings:
            return self.codings[key]
        alike = [known for known in self.codings if _kinds(known) == _kinds(key)]
        if not alike:
            raise PlanError(
                f"the profile of {self.model} holds no cost of {type(codec).__qualname__} behind "
                f"{type(memory).__qualname__}; measure it with with_codings(…), or profile the model anew"
            )
        return replace(self.codings[alike[0]], capacity_nbytes=0)  # bytes are those of this codec's own capacity

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        write_json(path, {"version": _VERSION, **asdict(self)}, indent=1)

    @classmethod
    def load(cls, path: Path) -> Profile:
        """Read what `save` wrote."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data.pop("version") != _VERSION:
                raise PlanError(f"{path} is a profile of another version; measure it anew")
            return cls(
                **{
                    **data,
                    "tensors": tuple(TensorShape(**{**t, "shape": tuple(t["shape"])}) for t in data["tensors"]),
                    "layers": tuple(Layer(**layer) for layer in data["layers"]),
                    "slowdown": {int(k): v for k, v in data["slowdown"].items()},
                    "batches": {int(k): v for k, v in data["batches"].items()},
                    "codings": {k: _coding(v) for k, v in data["codings"].items()},
                    "overheads": Overheads(**data["overheads"]),
                }
            )
        except OSError as error:
            raise PlanError(f"the profile {path} cannot be read: {error.strerror}") from None
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise PlanError(f"{path} is not a profile ({error}); make one with tightwire plan --save-profile") from None


def _coding(data: dict[str, Any]) -> Coding:
    return Coding(**{**data, "asks": tuple(Asked(**ask) for ask in data["asks"])})


def coding_key(memory: Memory, codec: Codec) -> str:
    """Memory and codec as text: the name their costs are kept under."""
    return f"{memory!r} {codec!r}"


def _kinds(key: str) -> str:
    """A key without its numbers: what costs about the same for each element."""
    return re.sub(r"-?[0-9][0-9.e+-]*", "#", key)
