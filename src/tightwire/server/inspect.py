"""What a push must be before a shard looks at it: the tensors it holds, in their size, and finite numbers in them.

A single NaN in the centre reaches every worker with its next read and never leaves again; so it is refused at the door,
and the worker that sent it is told.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tightwire.algebra.codec import Codec, Payload
from tightwire.algebra.errors import PayloadError
from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At


def decoded(
    wires: Mapping[str, Tensor], center: Mapping[str, Bucket], codec: Codec, at: At, *, worker: int
) -> dict[str, Bucket]:
    """A worker's contribution, tensor by tensor; `PayloadError` says what is wrong with one that is none."""
    if set(wires) != set(center):
        raise PayloadError(
            f"worker {worker} pushed {sorted(wires)}, this shard holds {sorted(center)}", reason="unknown tensor"
        )
    values = {}
    for label, wire in wires.items():
        values[label] = value = Bucket.zeros(center[label].spec)
        if wire.dtype not in (torch.uint8, value.flat.dtype):  # what codecs write: bytes, or numbers as they are
            raise PayloadError(
                f"worker {worker} pushed {wire.dtype} for {label}, where {value.flat.dtype} belongs", reason="dtype"
            )
        try:
            codec.decode_(value, Payload(wire.to(value.flat.device)), {}, at)
        except PayloadError as error:
            raise PayloadError(str(error), reason="shape") from None
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise PayloadError(f"what worker {worker} pushed for {label} has no such form: {error}", "shape") from None
        if not finite(value.flat):
            raise PayloadError(
                f"worker {worker} pushed NaN or infinity for {label}, and nothing of it was used; lower its learning "
                "rate, or clip",
                reason="not finite",
            )
    return values


def finite(flat: Tensor) -> bool:
    """Whether all elements are finite: by their sum, in one pass; a sum may overflow, so only then one by one.

    >>> finite(torch.tensor([3e38, 3e38])), finite(torch.tensor([1.0, float("nan")]))
    (True, False)
    """
    return bool(flat.sum().isfinite()) or bool(torch.isfinite(flat).all())
