"""What both ends of an Arrow Flight stream share: one message in each direction of an exchange.

    request   descriptor: envelope {"to", "from", "patience_s", "data", "tensors"}    batches of one column of bytes
    reply     metadata:   envelope {"data", "tensors"} or {"error", "text"}           batches of one column of bytes

The token of the run goes into the header of every call. Batches are built over the tensors' own memory.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.flight as fl  # type: ignore[import-untyped]
from torch import Tensor

from tightwire.algebra.errors import PayloadError
from tightwire.links.frames import PIECE_NBYTES, Bytes, Staging, expect, pieces

SCHEMA = pa.schema([("bytes", pa.uint8())])
AUTHORIZATION = "authorization"
SHARE = "share"  # an action: a worker on this host offers memory that both see
HELLO, STAY, BEAT, LEAVE = "hello", "stay", "beat", "leave"  # actions: anybody there? a worker comes, lives, goes
STATUS = "status"
JOIN = "join"  # an action: another server offers itself
BROKEN = (fl.FlightError, pa.ArrowException, OSError)  # what Arrow raises when a call fails
_MOST_ENVELOPE = 1 << 24
_MOST_DRAINED = 1 << 26
_SCHEMA_NBYTES: int = SCHEMA.serialize().size
_FRAMING_NBYTES: int = (
    pa.ipc.get_record_batch_size(pa.RecordBatch.from_arrays([pa.array([0] * 64, pa.uint8())], schema=SCHEMA)) - 64
)


@dataclass(frozen=True)
class Place:
    """Where a server listens, and what opens it.

    ``authority`` (PEM) vouches for its certificate, which is made out to ``name`` where that is not its address.
    ``host`` is the machine it runs on, as `access.this_host` says it there.
    """

    location: str
    token: str = field(repr=False)
    authority: str = field(default="", repr=False)
    name: str = ""
    host: str = ""

    def write(self) -> str:
        """As text for a store."""
        return json.dumps(vars(self))

    @classmethod
    def read(cls, text: str) -> Place:
        """The reverse."""
        return cls(**json.loads(text))

    @property
    def options(self) -> list[tuple[bytes, bytes]]:
        """The headers of a call that the server lets in."""
        return [(AUTHORIZATION.encode(), f"Bearer {self.token}".encode())]


def write_envelope(envelope: dict[str, Any]) -> bytes:
    """An envelope as bytes."""
    return json.dumps(envelope, allow_nan=False, separators=(",", ":")).encode()


def read_envelope(raw: bytes) -> dict[str, Any]:
    """An envelope; refuses what is none."""
    if len(raw) > _MOST_ENVELOPE:
        raise PayloadError(f"an envelope of {len(raw):,} bytes; at most {_MOST_ENVELOPE:,} are read")
    try:
        envelope = json.loads(raw)
    except (ValueError, RecursionError):
        envelope = None
    if not isinstance(envelope, dict):
        raise PayloadError("a message whose envelope is not a JSON object")
    return envelope


def send(writer: fl.MetadataRecordBatchWriter, tensors: Sequence[Tensor]) -> None:
    """The bytes of tensors, in batches that lie where the tensors lie."""
    for piece in pieces(tensors):
        column = pa.Array.from_buffers(pa.uint8(), piece.size, [None, pa.py_buffer(piece)])
        writer.write_batch(pa.RecordBatch.from_arrays([column], schema=SCHEMA))


def message_nbytes(envelope: bytes, tensors: Sequence[Tensor]) -> int:
    """What a message hands to the transport: envelope, schema, and the tensors' bytes in Arrow's framing.

    What HTTP/2, TLS and TCP add is not in it.
    """
    batches = sum(-(-tensor.nbytes // PIECE_NBYTES) for tensor in tensors)
    return len(envelope) + _SCHEMA_NBYTES + batches * _FRAMING_NBYTES + sum(tensor.nbytes for tensor in tensors)


def receive(reader: fl.MetadataRecordBatchReader, table: Any) -> list[Tensor]:
    """The tensors that were announced, once all of them are here."""
    staging = Staging(expect(table))
    while (chunk := next_chunk(reader)) is not None:
        if chunk.data is not None:
            staging.take(_bytes_of(chunk.data))
    return staging.whole()


def drain(reader: fl.MetadataRecordBatchReader) -> None:
    """Read the rest of what is refused, within reason: Flight gives an answer only to who could finish writing."""
    left = _MOST_DRAINED
    with suppress(*BROKEN):
        while left > 0 and (chunk := next_chunk(reader)) is not None:
            left -= chunk.data.nbytes if chunk.data is not None else 1


def next_chunk(reader: fl.MetadataRecordBatchReader) -> fl.FlightStreamChunk | None:
    """The next part of a stream, None at its end."""
    try:
        return reader.read_chunk()
    except StopIteration:
        return None


def _bytes_of(batch: pa.RecordBatch) -> Bytes:
    if batch.num_columns != 1 or batch.schema.field(0).type != pa.uint8():
        raise PayloadError(f"a batch of {batch.schema} where one column of bytes belongs")
    column = batch.column(0)
    if column.null_count or column.offset:
        raise PayloadError("a batch with gaps where plain bytes belong")
    return np.frombuffer(column.buffers()[1], dtype=np.uint8, count=len(column))
