"""The desks of one process behind an Arrow Flight server.

    exchange   request received whole ─▶ unpacked ─▶ desk.ask (may wait for others) ─▶ reply streamed back
    stay       a call that every worker keeps open: when its process dies, however, the call breaks, and the desks know
    beat       a sign of life every few seconds: one that is stopped or cut off keeps its call open, and is silent
    leave      the goodbye; a server closes once everybody who came has said it
    status     what a run's own people may know of it
    join       another server offers itself for a run's shards

Where it listens and whom it lets in is the door's business (`links.door`), what belongs to whom the service's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.flight as fl  # type: ignore[import-untyped]

from tightwire.algebra.errors import AccessError, LinkError, PayloadError, TightwireError
from tightwire.algebra.link import Asked, Describes
from tightwire.links.attendance import Guest
from tightwire.links.doorkeeper import TOKEN, Doorkeeper, token_of
from tightwire.links.flight import (
    BEAT,
    HELLO,
    JOIN,
    LEAVE,
    SCHEMA,
    SHARE,
    STATUS,
    STAY,
    drain,
    message_nbytes,
    read_envelope,
    receive,
    send,
    write_envelope,
)
from tightwire.links.frames import announce, expect
from tightwire.links.same_host import UNANSWERED, answer
from tightwire.links.segment import Segment
from tightwire.links.service import Service
from tightwire.links.tokens import Token, Tokens

_LOOK_EVERY_S = 0.1
_MOST_ADDRESS = 300


@dataclass(frozen=True)
class _Heard:
    """A question, whole."""

    desk: Asked | None  # None: a machine was opened
    rank: int
    event: Any
    patience_s: float
    nbytes: int
    segment: Segment | None  # where its tensors lie, on this host


class FlightServer(fl.FlightServerBase):  # type: ignore[misc]
    """Flight's side of it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        door = service.door
        shown: dict[str, Any] = {"tls_certificates": [(door.certificate, door.key)]} if door.certificate else {}
        if door.client_authority:
            shown |= {"verify_client": True, "root_certificates": door.client_authority}
        super().__init__(
            door.listen, middleware={TOKEN: Doorkeeper(Tokens(door.tokens), service.guard.refuse)}, **shown
        )

    def do_exchange(
        self,
        context: fl.ServerCallContext,
        descriptor: fl.FlightDescriptor,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.MetadataRecordBatchWriter,
    ) -> None:
        """One question and its answer. What is wrong with it is an answer too."""
        with ExitStack() as held:
            self._converse(context, descriptor, reader, writer, held)

    def _converse(
        self,
        context: fl.ServerCallContext,
        descriptor: fl.FlightDescriptor,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.MetadataRecordBatchWriter,
        held: ExitStack,
    ) -> None:
        heard: _Heard | None = None
        try:
            heard = self._hear(context, descriptor, reader, held)
            data, tensors = self._reply(context, heard)
            envelope: dict[str, Any] = {"data": data, "tensors": announce(tensors)}
        except TightwireError as error:
            self._service.guard.refuse(error)
            envelope, tensors = {"error": type(error).__name__, "text": str(error)}, []
            drain(reader)
        except Exception as error:
            self._service.guard.count("failed", 1)
            envelope, tensors = {"error": LinkError.__name__, "text": f"the server failed: {error!r}"}, []
        if not context.is_cancelled():
            segment = None if heard is None or "error" in envelope else heard.segment
            raw = write_envelope(envelope if segment is None else {**envelope, "memory": UNANSWERED})
            if heard is not None:
                if heard.desk is not None:
                    self._service.carried(heard.desk.name, heard.event, message_nbytes(raw, tensors), heard.nbytes)
                heard = None  # whoever refers to the event's tensors now keeps them
            if segment is not None:
                told = answer(segment, tensors, envelope["tensors"])
                raw, tensors = write_envelope({**envelope, "memory": told}), [] if told["down"] else tensors
            writer.begin(SCHEMA)
            writer.write_metadata(pa.py_buffer(raw))
            send(writer, tensors)

    def _reply(self, context: fl.ServerCallContext, heard: _Heard) -> tuple[Any, list[Any]]:
        if heard.desk is None:
            return None, []
        said = heard.desk.ask(heard.rank, heard.event, heard.patience_s, context.is_cancelled)
        return self._service.form.pack(said)

    def _hear(
        self,
        context: fl.ServerCallContext,
        descriptor: fl.FlightDescriptor,
        reader: fl.MetadataRecordBatchReader,
        held: ExitStack,
    ) -> _Heard:
        service, token, peer = self._service, token_of(context), context.peer()
        service.prove(peer)
        held.enter_context(service.guard.stream(peer))
        raw = descriptor.command or b""
        envelope = read_envelope(raw)
        match envelope:
            case {"from": int(rank), "patience_s": float() | int() as patience_s, "data": data}:
                table = envelope.get("tensors")
                frames = expect(table, service.guard.limits.message_nbytes)
                held.enter_context(service.guard.memory(peer, sum(frame.nbytes for frame in frames)))
                segment = service.borrowed.find(rank, envelope["memory"]) if "memory" in envelope else None
                if segment is None:
                    tensors = receive(reader, table)
                else:
                    drain(reader)  # there is nothing in it, but an answer before its end would be lost
                    tensors = segment.up.tensors(frames)
            case _:
                raise PayloadError("a request says whom it is for, who asks, and how long it may take")
        if context.is_cancelled():
            raise PayloadError(f"rank {rank} broke off; nothing of its request is used", reason="broke off")
        match envelope:
            case {"open": str(name), "room": str(room)}:
                if token.may != "write":
                    raise AccessError("this token may only watch, and nothing was opened")
                service.open(token, room, name, data, tensors)
                return _Heard(None, rank, None, patience_s, 0, segment)
            case {"to": str(name)}:
                event = service.form.unpack(data, tensors)
                self._may(token, rank, event)
                new = getattr(event, "event", event) is not None  # who only asks again for a reply asks nothing new
                service.attendance.heard(_guest(token, name, rank), time.monotonic(), asked=int(new))
                return _Heard(service.find(token, name), rank, event, patience_s, message_nbytes(raw, tensors), segment)
            case _:
                raise PayloadError("a request says whom it is for, who asks, and how long it may take")

    def _may(self, token: Token, rank: int, event: Any) -> None:
        form = self._service.form
        if token.may != "write" and not (isinstance(form, Describes) and form.reads(event)):
            raise AccessError(f"this token may only watch; a {type(event).__name__} changes something")
        if token.may != "write" and rank >= 0:
            raise AccessError(f"who watches has a number below 0, and no worker's: not {rank}")
        if getattr(event, "worker", rank) != rank:
            raise PayloadError(f"rank {rank} speaks for worker {event.worker}", reason="not allowed")

    def do_action(self, context: fl.ServerCallContext, action: fl.Action) -> Iterator[fl.Result]:
        """Come, be heard, or go."""
        service, token = self._service, token_of(context)
        service.prove(context.peer())
        body = action.body.to_pybytes()
        if action.type == HELLO:
            return
        if action.type == STATUS:
            yield fl.Result(pa.py_buffer(json.dumps(service.report(token.run)).encode()))
            return
        if token.may != "write":
            error = AccessError("this token may only watch")
            service.guard.refuse(error)
            raise fl.FlightUnauthorizedError(str(error))
        if action.type == SHARE:
            yield fl.Result(pa.py_buffer(service.borrowed.take(body)))
            return
        if action.type == JOIN:
            service.introduce(token.run, body.decode(errors="replace")[:_MOST_ADDRESS])
            return
        guest = self._introduced(token, body)
        if action.type == BEAT:
            service.attendance.heard(guest, time.monotonic())
        elif action.type == LEAVE:
            service.goodbye(guest)
        elif action.type == STAY:
            yield from self._stay(context, guest)
        else:
            raise fl.FlightServerError(f"{action.type!r} is nothing that can be done here")

    def _introduced(self, token: Token, body: bytes) -> Guest:
        try:
            match json.loads(body):
                case [int(rank), str(room)]:
                    return Guest(token.run, room, rank)
        except (ValueError, RecursionError):
            pass
        error = PayloadError("who comes says its rank and its room")
        self._service.guard.refuse(error)
        raise fl.FlightServerError(str(error))

    def _stay(self, context: fl.ServerCallContext, guest: Guest) -> Iterator[fl.Result]:
        service = self._service
        service.welcome(guest)
        yield fl.Result(pa.py_buffer(b"here"))
        while not service.closed.wait(_LOOK_EVERY_S):
            if guest not in service.attendance.here():
                return
            if context.is_cancelled():
                service.lost(guest)
                return


def _guest(token: Token, name: str, rank: int) -> Guest:
    """Whose question it is: where many runs are served, a desk's name begins with its room."""
    return Guest(token.run, name.partition("/")[0] if token.run else "", rank)
