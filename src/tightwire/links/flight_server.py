"""The desks of one process behind an Arrow Flight server.

    exchange   request received whole ─▶ unpacked ─▶ desk.ask (may wait for others) ─▶ reply streamed back
    stay       a call that every worker keeps open: when its process dies, however, the call breaks, and the desks know
    leave      the goodbye; a server closes once everybody who came has said it

Only the loopback is listened on, and only calls that carry the token are let in.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.flight as fl  # type: ignore[import-untyped]

from tightwire.algebra.errors import LinkError, PayloadError, TightwireError
from tightwire.algebra.link import Form
from tightwire.links.desk import Desk
from tightwire.links.flight import (
    AUTHORIZATION,
    HELLO,
    LEAVE,
    SCHEMA,
    STAY,
    Place,
    drain,
    read_envelope,
    receive,
    send,
    write_envelope,
)
from tightwire.links.frames import announce

LOOPBACK = "grpc://127.0.0.1:0"
_LOOK_EVERY_S = 0.1
_END_S = 2.0


class Service:
    """What one process hosts for others. Opens with the first desk."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.desks: dict[str, Desk] = {}
        self.present: set[int] = set()
        self.closed = threading.Event()
        self._server: _Server | None = None
        self._token = secrets.token_hex(32)

    def add(self, desk: Desk) -> Place:
        """Host a desk; returns where to ask for it."""
        self.desks[desk.name] = desk
        if self._server is None:
            self._server = _Server(self, LOOPBACK, self._token)
        return Place(f"grpc://127.0.0.1:{self._server.port}", self._token)

    def wait_for_goodbyes(self, timeout_s: float) -> list[int]:
        """Serve until everybody who came has left, or is gone; returns who was still here when the time was over."""
        deadline = time.monotonic() + timeout_s
        while self.present and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S / 10)
        return sorted(self.present)

    def close(self) -> None:
        """Stop at once: whoever waits is told."""
        self.closed.set()
        for desk in self.desks.values():
            desk.close()
        if self._server is not None:
            ending = threading.Thread(target=self._server.shutdown, daemon=True)
            ending.start()
            ending.join(_END_S)  # a peer that hangs in the middle of a stream does not keep us
            self._server = None


class _Server(fl.FlightServerBase):  # type: ignore[misc]
    """Flight's side of it."""

    def __init__(self, service: Service, location: str, token: str) -> None:
        self._service = service
        super().__init__(location, middleware={"token": _Doorkeeper(token)})

    def do_exchange(
        self,
        context: fl.ServerCallContext,
        descriptor: fl.FlightDescriptor,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.MetadataRecordBatchWriter,
    ) -> None:
        """One question and its answer. What is wrong with it is an answer too."""
        try:
            data, tensors = self._service.form.pack(self._answer(context, descriptor, reader))
            envelope: dict[str, Any] = {"data": data, "tensors": announce(tensors)}
        except TightwireError as error:
            envelope, tensors = {"error": type(error).__name__, "text": str(error)}, []
            drain(reader)
        except Exception as error:
            envelope, tensors = {"error": LinkError.__name__, "text": f"the server failed: {error!r}"}, []
        if not context.is_cancelled():
            writer.begin(SCHEMA)
            writer.write_metadata(pa.py_buffer(write_envelope(envelope)))
            send(writer, tensors)

    def _answer(
        self, context: fl.ServerCallContext, descriptor: fl.FlightDescriptor, reader: fl.MetadataRecordBatchReader
    ) -> Any:
        envelope = read_envelope(descriptor.command or b"")
        match envelope:
            case {"to": str(name), "from": int(rank), "patience_s": float() | int() as patience_s, "data": data}:
                event = self._service.form.unpack(data, receive(reader, envelope.get("tensors")))
            case _:
                raise PayloadError("a request says whom it is for, who asks, and how long it may take")
        if context.is_cancelled():
            raise PayloadError(f"rank {rank} broke off; nothing of its request is used")
        if name not in self._service.desks:
            raise PayloadError(f"nothing called {name!r} is here")
        return self._service.desks[name].ask(rank, event, patience_s, context.is_cancelled)

    def do_action(self, context: fl.ServerCallContext, action: fl.Action) -> Iterator[fl.Result]:
        """Come, or go."""
        if action.type == HELLO:
            return
        rank = int(action.body.to_pybytes())
        if action.type == LEAVE:
            self._service.present.discard(rank)
        elif action.type == STAY:
            self._service.present.add(rank)
            yield fl.Result(pa.py_buffer(b"here"))
            yield from self._watch(context, rank)
        else:
            raise fl.FlightServerError(f"{action.type!r} is nothing that can be done here")

    def _watch(self, context: fl.ServerCallContext, rank: int) -> Iterator[fl.Result]:
        service = self._service
        while not service.closed.wait(_LOOK_EVERY_S):
            if rank not in service.present:
                return
            if context.is_cancelled():
                service.present.discard(rank)
                for desk in service.desks.values():
                    desk.mark_gone(rank)
                return
        yield from ()


class _Doorkeeper(fl.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets in who has the token; how long the comparison takes tells nothing about it."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._expected = f"Bearer {token}".encode()

    def start_call(self, info: fl.CallInfo, headers: dict[str, list[str | bytes]]) -> None:
        """Look at the header."""
        for given in headers.get(AUTHORIZATION, []):
            if hmac.compare_digest(given if isinstance(given, bytes) else given.encode(), self._expected):
                return
        raise fl.FlightUnauthenticatedError("this server belongs to a run, and the call does not carry its token")
