"""One worker's calls to the server in another process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import pyarrow.flight as fl  # type: ignore[import-untyped]
from torch import Tensor

from tightwire.algebra import errors
from tightwire.algebra.errors import LinkError, PayloadError, PeerLost, PeerTimeout, TightwireError, UnknownMemory
from tightwire.algebra.link import Carried, Describes, Form, Machine
from tightwire.links.access import this_host
from tightwire.links.desk import not_counted
from tightwire.links.flight import (
    BEAT,
    BROKEN,
    HELLO,
    JOIN,
    LEAVE,
    SCHEMA,
    SHARE,
    STATUS,
    STAY,
    Place,
    message_nbytes,
    next_chunk,
    read_envelope,
    receive,
    send,
    write_envelope,
)
from tightwire.links.frames import announce
from tightwire.links.same_host import Lender, Loan

_SLACK_S = 2.0  # a server that waited in vain says so itself; only a silent one is given up by its caller
_GOODBYE_S = 2.0
_OFFER_S = 10.0
_BEAT_EVERY_S = 3.0
_TOLD = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, TightwireError)
}


class Caller:
    """This worker at the server of rank ``host``, or at one that stands alone, whose name that is.

    ``identity`` is its own certificate and key, for servers that ask for one; ``room`` is its run's at a server that
    has many.
    """

    def __init__(
        self,
        place: Place,
        *,
        host: int | str,
        me: int,
        form: Form,
        identity: tuple[bytes, bytes] | None = None,
        room: str = "",
    ) -> None:
        self._place = place
        self._room = room
        self._over = threading.Event()
        self._host = f"rank {host}" if isinstance(host, int) else host
        self._me = me
        self._identity = identity
        self.carried: Carried = not_counted
        self._form = form
        self._client: fl.FlightClient | None = None
        self._memory = Lender(me, self._offer if place.host == this_host() else None)
        self._stay: Iterator[fl.Result] | None = None  # the open call that says we live

    def connect(self, timeout_s: float) -> None:
        """Find the server, and see that it lets us in."""
        try:
            self._client = fl.connect(self._place.location, **self._tls())
            list(self._client.do_action(fl.Action(HELLO, b""), self._options(timeout_s)))
        except BROKEN as error:
            self._give_up(error, "the door to open", timeout_s, "cannot be reached, or is not whom we believe")

    def come(self, timeout_s: float) -> None:
        """Connect, and open the call that tells the server that this worker lives."""
        self.connect(timeout_s)  # bounded in time, as the next call is not
        assert self._client is not None
        try:
            self._stay = self._client.do_action(fl.Action(STAY, self._card), self._options(None))
            next(self._stay)
        except BROKEN as error:
            self._give_up(error, "being let in", timeout_s)
        threading.Thread(target=self._beat, args=(self._client,), daemon=True).start()

    def visit(self, timeout_s: float) -> None:
        """Connect, and let a thread open that call: who can go elsewhere does not wait for a server that hangs."""
        self.connect(timeout_s)
        assert self._client is not None
        threading.Thread(target=self._attend, args=(self._client,), daemon=True).start()

    def _attend(self, client: fl.FlightClient) -> None:
        with suppress(*BROKEN, StopIteration):
            stay = client.do_action(fl.Action(STAY, self._card), self._options(None))
            next(stay)
            self._beat(client)

    def introduce(self, where: str, timeout_s: float) -> None:
        """Offer the server that listens there to this run."""
        assert self._client is not None
        try:
            list(self._client.do_action(fl.Action(JOIN, where.encode()), self._options(timeout_s)))
        except BROKEN as error:
            self._give_up(error, "being introduced", timeout_s)

    @property
    def _card(self) -> bytes:
        return json.dumps([self._me, self._room]).encode()

    def _beat(self, client: fl.FlightClient) -> None:
        """A sign of life every few seconds, for as long as this process runs."""
        while not self._over.wait(_BEAT_EVERY_S):
            with suppress(*BROKEN):
                list(client.do_action(fl.Action(BEAT, self._card), self._options(_BEAT_EVERY_S)))

    def open(self, name: str, machine: Machine, timeout_s: float) -> None:
        """Have a server that stands alone keep a machine for this run."""
        assert isinstance(self._form, Describes)
        data, tensors = self._form.describe(machine)
        envelope = {
            "open": name, "room": self._room, "from": self._me, "patience_s": timeout_s, "data": data,
            "tensors": announce(tensors),
        }  # fmt: skip
        self._exchange(envelope, tensors, f"opening {name}", timeout_s)

    def status(self, timeout_s: float) -> dict[str, Any]:
        """What the server tells this run's own people."""
        assert self._client is not None
        try:
            said = self._client.do_action(fl.Action(STATUS, b""), self._options(timeout_s))
            return read_envelope(b"".join(result.body.to_pybytes() for result in said))
        except BROKEN as error:
            self._give_up(error, "its report", timeout_s)

    def ask(self, name: str, event: Any, timeout_s: float) -> Any:
        """One exchange: the event there, the reply back."""
        data, tensors = self._form.pack(event)
        envelope = {
            "to": name, "from": self._me, "patience_s": timeout_s, "data": data, "tensors": announce(tensors),
        }  # fmt: skip
        reply, tx, rx = self._exchange(envelope, tensors, f"a reply of {name}", timeout_s)
        self.carried(name, event, tx, rx)
        return reply

    def _exchange(
        self, envelope: dict[str, Any], tensors: Sequence[Tensor], what: str, timeout_s: float
    ) -> tuple[Any, int, int]:
        """One message there and one back, and how large the two were."""
        assert self._client is not None
        try:
            with self._memory.lend(tensors) as loan:
                command = write_envelope(envelope if loan is None else {**envelope, "memory": loan.segment.name})
                descriptor = fl.FlightDescriptor.for_command(command)
                writer, reader = self._client.do_exchange(descriptor, self._options(timeout_s + _SLACK_S))
                with suppress(*BROKEN):  # a server that refuses what it reads stops reading, and says why
                    writer.begin(SCHEMA)
                    send(writer, tensors if loan is None else ())
                    writer.done_writing()
                reply, nbytes = self._read(reader, loan)
                writer.close()
        except UnknownMemory:  # the server has looked at nothing else
            self._memory.forget()
            return self._exchange(envelope, tensors, what, timeout_s)
        except BROKEN as error:
            self._memory.forget()
            self._give_up(error, what, timeout_s)
        return reply, message_nbytes(command, tensors), nbytes

    def _read(self, reader: fl.MetadataRecordBatchReader, loan: Loan | None) -> tuple[Any, int]:
        first = next_chunk(reader)
        if first is None or first.app_metadata is None:
            raise PayloadError(f"{self._host} answered without an envelope")
        raw = first.app_metadata.to_pybytes()
        envelope = read_envelope(raw)
        if "error" in envelope:
            raise _TOLD.get(str(envelope["error"]), LinkError)(str(envelope.get("text")))
        table = envelope.get("tensors")
        lent = None if loan is None else loan.read(envelope.get("memory"), table)
        tensors = receive(reader, table) if lent is None else lent
        self._memory.learn(tensors)
        data = envelope.get("data")
        return None if data is None else self._form.unpack(data, tensors), message_nbytes(raw, tensors)

    def _offer(self, segment: bytes) -> bytes:
        """Have the server open memory that both see; returns what it says to that."""
        assert self._client is not None
        said = [
            result.body.to_pybytes() for result in self._client.do_action((SHARE, segment), self._options(_OFFER_S))
        ]
        return b"".join(said)

    def leave(self) -> None:
        """Say goodbye; a server that is gone already does not mind."""
        if self._client is not None and self._stay is not None:  # who only looked did not come
            with suppress(*BROKEN):
                list(self._client.do_action(fl.Action(LEAVE, self._card), self._options(_GOODBYE_S)))
                list(self._stay)
        self.drop()

    def drop(self) -> None:
        """Let go without a goodbye."""
        self._stay = None
        self._over.set()
        self._memory.forget()
        if self._client is not None:
            self._client.close()
            self._client = None

    def _tls(self) -> dict[str, Any]:
        place = self._place
        options: dict[str, Any] = {}
        if place.location.startswith("grpc+tls"):
            options = {"tls_root_certs": place.authority or None, "override_hostname": place.name or None}
            if self._identity is not None:
                options |= {"cert_chain": self._identity[0], "private_key": self._identity[1]}
        return {key: value for key, value in options.items() if value is not None}

    def _options(self, timeout_s: float | None) -> fl.FlightCallOptions:
        return fl.FlightCallOptions(timeout=timeout_s, headers=self._place.options)

    def _give_up(self, error: Exception, what: str, timeout_s: float, fate: str = "is gone") -> NoReturn:
        where = f"rank {self._me} waited for {what}"
        if isinstance(error, fl.FlightTimedOutError):
            raise PeerTimeout(
                f"{where}, and {self._host}, where it is, did not answer within {timeout_s:g} s (exchange_timeout_s)"
            ) from None
        if isinstance(error, fl.FlightUnauthenticatedError | fl.FlightUnauthorizedError):
            raise LinkError(f"{where}, and {self._host} refused its token: {_first_line(error)}") from None
        raise PeerLost(f"{where}, and {self._host}, where it is, {fate}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
