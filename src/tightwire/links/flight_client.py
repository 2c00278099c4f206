"""One worker's calls to the server in another process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NoReturn

import pyarrow.flight as fl  # type: ignore[import-untyped]

from tightwire.algebra import errors
from tightwire.algebra.errors import LinkError, PayloadError, PeerLost, PeerTimeout, TightwireError
from tightwire.algebra.link import Form
from tightwire.links.flight import (
    BROKEN,
    HELLO,
    LEAVE,
    SCHEMA,
    STAY,
    Place,
    next_chunk,
    read_envelope,
    receive,
    send,
    write_envelope,
)
from tightwire.links.frames import announce

_SLACK_S = 2.0  # a server that waited in vain says so itself; only a silent one is given up by its caller
_GOODBYE_S = 2.0
_TOLD = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, TightwireError)
}


class Caller:
    """This worker at the server of rank ``host``."""

    def __init__(self, place: Place, *, host: int, me: int, form: Form) -> None:
        self._place = place
        self._host = host
        self._me = me
        self._form = form
        self._client: fl.FlightClient | None = None
        self._stay: Iterator[fl.Result] | None = None  # the open call that says we live

    def come(self, timeout_s: float) -> None:
        """Connect, and open the call that tells the server that this worker lives."""
        try:
            self._client = fl.connect(self._place.location)
            list(self._client.do_action(fl.Action(HELLO, b""), self._options(timeout_s)))  # the next call has no end
            self._stay = self._client.do_action(fl.Action(STAY, str(self._me).encode()), self._options(None))
            next(self._stay)
        except BROKEN as error:
            self._give_up(error, f"opening the server of rank {self._host}", timeout_s)

    def ask(self, name: str, event: Any, timeout_s: float) -> Any:
        """One exchange: the event there, the reply back."""
        assert self._client is not None
        data, tensors = self._form.pack(event)
        envelope = {
            "to": name, "from": self._me, "patience_s": timeout_s, "data": data, "tensors": announce(tensors),
        }  # fmt: skip
        descriptor = fl.FlightDescriptor.for_command(write_envelope(envelope))
        try:
            writer, reader = self._client.do_exchange(descriptor, self._options(timeout_s + _SLACK_S))
            with suppress(*BROKEN):  # a server that refuses what it reads stops reading, and says why
                writer.begin(SCHEMA)
                send(writer, tensors)
                writer.done_writing()
            reply = self._read(reader)
            writer.close()
        except BROKEN as error:
            self._give_up(error, f"a reply of {name}", timeout_s)
        return reply

    def _read(self, reader: fl.MetadataRecordBatchReader) -> Any:
        first = next_chunk(reader)
        if first is None or first.app_metadata is None:
            raise PayloadError(f"rank {self._host} answered without an envelope")
        envelope = read_envelope(first.app_metadata.to_pybytes())
        if "error" in envelope:
            raise _TOLD.get(str(envelope["error"]), LinkError)(str(envelope.get("text")))
        return self._form.unpack(envelope.get("data"), receive(reader, envelope.get("tensors")))

    def leave(self) -> None:
        """Say goodbye; a server that is gone already does not mind."""
        if self._client is None:
            return
        with suppress(*BROKEN):
            list(self._client.do_action(fl.Action(LEAVE, str(self._me).encode()), self._options(_GOODBYE_S)))
            list(self._stay or ())
        self.drop()

    def drop(self) -> None:
        """Let go without a goodbye."""
        self._stay = None
        if self._client is not None:
            self._client.close()
            self._client = None

    def _options(self, timeout_s: float | None) -> fl.FlightCallOptions:
        return fl.FlightCallOptions(timeout=timeout_s, headers=self._place.options)

    def _give_up(self, error: Exception, what: str, timeout_s: float) -> NoReturn:
        where = f"rank {self._me} waited for {what}"
        if isinstance(error, fl.FlightTimedOutError):
            raise PeerTimeout(
                f"{where}, and rank {self._host}, where it is, did not answer within {timeout_s:g} s "
                "(exchange_timeout_s)"
            ) from None
        if isinstance(error, fl.FlightUnauthenticatedError):
            raise LinkError(f"{where}, and rank {self._host} refused its token: {_first_line(error)}") from None
        raise PeerLost(f"{where}, and rank {self._host}, where it is, is gone: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
