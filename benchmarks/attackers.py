"""Strangers at a server's port, and malformed messages from within: what the attack test and the benchmark throw at it.

Each attack is a function of a `Target`; it returns how often it was done, and raises if it got in. The fuzzer carries
the run's own token, so that its messages reach the last line of defence: every one is wrong in some way.
"""

from __future__ import annotations

import json
import os
import random
import socket
import ssl
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import pyarrow.flight as fl  # type: ignore[import-untyped]
import torch
from torch import Tensor

from tightwire.links.flight import BROKEN, HELLO, SCHEMA, SHARE, STATUS, STAY, Place, send
from tightwire.links.frames import announce
from tightwire.server.events import Peek, Push
from tightwire.server.wireform import WireForm

_PATIENCE_S = 5.0


@dataclass(frozen=True)
class Target:
    """A server, how its own people reach it, a push that it would take, and what others have."""

    place: Place
    machine: str
    good: Push
    other_token: str
    identity: tuple[bytes, bytes] | None = None
    expired: tuple[bytes, bytes] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.place.location)
        return parts.hostname or "", parts.port or 0

    def client(self, identity: tuple[bytes, bytes] | None = None) -> fl.FlightClient:
        """A connection as a worker makes it."""
        options: dict[str, Any] = {"tls_root_certs": self.place.authority}
        own = identity or self.identity
        if own is not None:
            options |= {"cert_chain": own[0], "private_key": own[1]}
        return fl.connect(self.place.location, **options)


# ── without a token, or with a wrong one ──────────────────────────────────────────────────────────────────────────


def wrong_tokens(target: Target, client: fl.FlightClient) -> int:
    """No token, a wrong one, one of another run; actions and exchanges."""
    places = [replace(target.place, token=token) for token in ("", "0" * 64, target.place.token[:-1])]
    command, tensors = _request(target)
    for place in places:
        for action in (HELLO, STAY, STATUS, SHARE):
            _must_fail(lambda p=place, a=action: list(client.do_action(fl.Action(a, b'[0, ""]'), _options(p))))  # type: ignore[misc]
        _must_fail(lambda p=place: _exchange(client, p, command, tensors))  # type: ignore[misc]
        _must_fail(lambda p=place: list(client.list_flights(options=_options(p))))  # type: ignore[misc]
    elsewhere = replace(target.place, token=target.other_token)
    answer = _exchange(client, elsewhere, command, tensors)
    assert "error" in answer, f"another run's token opened {target.machine}"
    return 6 * len(places) + 1


def expired_certificate(target: Target) -> int:
    """A worker whose certificate has ended."""
    assert target.expired is not None
    client = target.client(target.expired)
    _must_fail(lambda: list(client.do_action(fl.Action(HELLO, b""), _options(target.place))))
    client.close()
    return 1


def plaintext(target: Target) -> int:
    """Somebody who does not speak TLS, or no language at all; some hang up in the middle of a word."""
    for word in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        os.urandom(4096),
        b"\x16\x03\x01\x02\x00",
    ):
        with suppress(OSError), socket.create_connection(target.address, _PATIENCE_S) as stranger:
            stranger.sendall(word)
            stranger.settimeout(0.05)
            stranger.recv(64)
    return 4


def bytes_in_tls(target: Target) -> int:
    """A proper TLS handshake, and then noise, or half of an HTTP/2 preface."""
    context = ssl.create_default_context(cadata=target.place.authority)
    context.check_hostname = False
    if target.identity is not None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"".join(target.identity))
            file.flush()
            context.load_cert_chain(file.name)
    context.set_alpn_protocols(["h2"])
    for word in (os.urandom(2048), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(512), b"PRI * HT"):
        with (
            suppress(OSError),
            socket.create_connection(target.address, _PATIENCE_S) as raw,
            context.wrap_socket(raw, server_hostname="x") as stranger,
        ):
            stranger.sendall(word)
            stranger.settimeout(0.05)
            stranger.recv(64)
    return 3


def luggage(target: Target, client: fl.FlightClient, nbytes: int) -> int:
    """Much to carry, and no token."""
    place = replace(target.place, token="0" * 64)
    _must_fail(lambda: list(client.do_action(fl.Action(HELLO, bytes(nbytes)), _options(place))))
    return 1


def slow_loris(target: Target, connections: int) -> list[socket.socket]:
    """Connections that say almost nothing, and stay."""
    held = []
    for number in range(connections):
        with suppress(OSError):
            held.append(socket.create_connection(target.address, _PATIENCE_S))
            if number % 2:
                held[-1].sendall(b"\x16")  # the first byte of a handshake
    return held


# ── with the run's token ──────────────────────────────────────────────────────────────────────────────────────────


def fuzz(target: Target, client: fl.FlightClient, messages: int, seed: int) -> dict[str, int]:
    """Malformed messages; every one must be answered with an error. Returns how many there were of each kind."""
    dice = random.Random(seed)
    sent: dict[str, int] = {}
    for _ in range(messages):
        kind = dice.choice(list(KINDS))
        command, tensors = KINDS[kind](target, dice)
        with suppress(*BROKEN):
            answer = _exchange(client, target.place, command, tensors)
            assert "error" in answer, (kind, command[:300], answer)
        sent[kind] = sent.get(kind, 0) + 1
    return sent


Made = tuple[bytes, list[Tensor]]


def _noise(target: Target, dice: random.Random) -> Made:
    return dice.randbytes(dice.randrange(200)), []


def _bent(target: Target, dice: random.Random) -> Made:
    """One value of a good message replaced by one of a kind that belongs nowhere."""
    command, tensors = _request(target)
    envelope = json.loads(command)
    place, key = envelope, "data"
    for _ in range(dice.randrange(5)):
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner:
            break
        place, key = inner, dice.choice(list(inner) if isinstance(inner, dict) else list(range(len(inner))))
    place[key] = dice.choice([None, {"$tensor": 99}, {"$set": 1}, [[]], {"$nothing": 0}, "x" * 50, {"kind": "Push"}])
    envelope["from"], envelope["data"] = 99, _as_worker(envelope["data"], 99)
    return json.dumps(envelope).encode(), tensors


def _as_worker(data: Any, worker: int) -> Any:
    """So that a message that stayed whole by chance is nobody's."""
    if isinstance(data, dict) and isinstance(data.get("fields"), dict) and "worker" in data["fields"]:
        data["fields"]["worker"] = "nobody"
    return data


def _short(target: Target, dice: random.Random) -> Made:
    command, tensors = _request(target)
    return command, [tensors[0][: tensors[0].numel() // 2].contiguous()] if dice.random() < 0.5 else []


def _long(target: Target, dice: random.Random) -> Made:
    command, tensors = _request(target)
    return command, [*tensors, torch.zeros(dice.randrange(1, 5000))]


def _oversized(target: Target, dice: random.Random) -> Made:
    command, _ = _request(target)
    envelope = json.loads(command)
    envelope["tensors"] = [["float64", [1 << dice.randrange(34, 60)]]]
    return json.dumps(envelope).encode(), []


def _bad_values(target: Target, dice: random.Random) -> Made:
    """The right form with the wrong content: NaN, other sizes, other names, a number of long ago."""
    if dice.random() < 0.2:
        return _pack(target, replace(target.good, sequence=-2))
    wires = {label: wire.clone() for label, wire in target.good.wires.items()}
    label = dice.choice(list(wires))
    match dice.randrange(4):
        case 0:
            wires[label].view(-1)[dice.randrange(wires[label].numel())] = dice.choice([float("nan"), float("inf")])
        case 1:
            wires[label] = torch.zeros(wires[label].numel() + dice.randrange(1, 9))
        case 2:
            wires[label] = wires[label].to(dice.choice([torch.float64, torch.int32, torch.uint8, torch.bool]))
        case _:
            wires["nobody's"] = wires.pop(label)
    return _pack(target, replace(target.good, wires=wires))


def _stranger(target: Target, dice: random.Random) -> Made:
    """In another's name, to another machine."""
    if dice.random() < 0.5:
        return _pack(target, replace(target.good, worker=target.good.worker + 1), sender=target.good.worker)
    return _pack(target, target.good, machine=dice.choice(["", "../x", "shard\x00", target.machine + "x"]))


KINDS: dict[str, Callable[[Target, random.Random], Made]] = {
    "noise": _noise, "bent": _bent, "too short": _short, "too long": _long, "oversized": _oversized,
    "bad values": _bad_values, "strangers": _stranger,
}  # fmt: skip


# ── by hand ───────────────────────────────────────────────────────────────────────────────────────────────────────


def truncated(target: Target, client: fl.FlightClient) -> int:
    """A push that breaks off in the middle, by its writer or by its whole call."""
    command, tensors = _request(target)
    descriptor = fl.FlightDescriptor.for_command(command)
    writer, reader = client.do_exchange(descriptor, _options(target.place))
    with suppress(*BROKEN):
        writer.begin(SCHEMA)
        send(writer, [tensors[0][:1].contiguous()])
    reader.cancel()
    del writer, reader
    return 1


def peek(target: Target, client: fl.FlightClient) -> dict[str, Any]:
    """A question that is answered, so that one knows the door is open at all."""
    data, tensors = WireForm().pack(Peek(-1))
    envelope = {"to": target.machine, "from": -1, "patience_s": 5.0, "data": data, "tensors": announce(tensors)}
    return _exchange(client, target.place, json.dumps(envelope).encode(), [])


def _request(target: Target) -> Made:
    return _pack(target, target.good)


def _pack(target: Target, push: Push, *, sender: int | None = None, machine: str | None = None) -> Made:
    data, tensors = WireForm().pack(push)
    envelope = {
        "to": target.machine if machine is None else machine, "from": push.worker if sender is None else sender,
        "patience_s": 2.0, "data": data, "tensors": announce(tensors),
    }  # fmt: skip
    return json.dumps(envelope).encode(), tensors


def _exchange(client: fl.FlightClient, place: Place, command: bytes, tensors: list[Tensor]) -> dict[str, Any]:
    writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(command), _options(place))
    with suppress(*BROKEN):
        writer.begin(SCHEMA)
        send(writer, tensors)
        writer.done_writing()
    answer: dict[str, Any] = json.loads(reader.read_chunk().app_metadata.to_pybytes())
    with suppress(*BROKEN):
        writer.close()
    return answer


def _options(place: Place) -> fl.FlightCallOptions:
    return fl.FlightCallOptions(timeout=_PATIENCE_S, headers=place.options)


def _must_fail(call: Callable[[], Any]) -> None:
    try:
        call()
    except (*BROKEN, StopIteration):
        return
    raise AssertionError("a stranger was let in")
