"""The two ends of every contestant of `benchmarks.server`: the same server, written on different wires.

    push    a gradient is received whole, then subtracted from the centre; then the worker goes on
    pull    the centre is received whole, then copied into the worker's weights

An end is a worker that can `push` and `pull`; `serve_*` is what runs in the other process, and tells through a pipe
where it is.
"""

from __future__ import annotations

import importlib
import socket
import ssl
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.distributed import rpc

from tightwire.algebra.schedule import Meta
from tightwire.server.events import Center, Peek, Push, Taken

NUMEL = 25_000_000  # 100 MB


class End(Protocol):
    """A worker and its connection."""

    def push(self, gradient: Tensor) -> None:
        """Have it subtracted from the centre; returns when that is done."""
        ...

    def pull(self, weights: Tensor) -> None:
        """Put the centre into the weights."""
        ...


class Sum:
    """The machine: a centre from which gradients are subtracted. Driven by the shard's own events."""

    def __init__(self, numel: int) -> None:
        self.center = torch.zeros(numel)

    def handle(self, event: Push | Peek) -> list[tuple[int, Taken | Center]]:
        """One push or pull."""
        if isinstance(event, Push):
            self.center.sub_(event.wires["w"])
            return [(event.worker, Taken(1))]
        return [(event.worker, Center(1, {"w": self.center}))]


# ── a raw socket ──────────────────────────────────────────────────────────────────────────────────────────────────


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.numpy().data.cast("B")


def _fill(link: socket.socket, into: memoryview) -> None:
    got = 0
    while got < len(into):
        count = link.recv_into(into[got:])
        if not count:
            raise EOFError
        got += count


def _tls(side: int, folder: str) -> ssl.SSLContext:
    """The same throw-away certificate that a run makes for itself."""
    from tightwire.links.certificates import throw_away  # noqa: PLC0415

    context = ssl.SSLContext(side)
    if side == ssl.PROTOCOL_TLS_SERVER:
        made = throw_away()
        for name, pem in (("cert", made.certificate), ("key", made.key)):
            (Path(folder) / name).write_bytes(pem)
        context.load_cert_chain(Path(folder) / "cert", Path(folder) / "key")
    else:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def serve_socket(pipe: Connection, kind: str, numel: int) -> None:
    """Receive into one buffer, then subtract."""
    machine, buffer = Sum(numel), torch.zeros(numel)
    listening = socket.create_server(("127.0.0.1", 0))
    pipe.send(listening.getsockname()[1])
    link, _ = listening.accept()
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if kind == "tls":
        with tempfile.TemporaryDirectory() as folder:
            link = _tls(ssl.PROTOCOL_TLS_SERVER, folder).wrap_socket(link, server_side=True)
    while order := link.recv(1):
        if order == b"p":
            _fill(link, _bytes(buffer))
            machine.center.sub_(buffer)
            link.sendall(b".")
        else:
            link.sendall(_bytes(machine.center))


class SocketEnd:
    """One connection, one buffer."""

    def __init__(self, port: int, kind: str, numel: int) -> None:
        self._buffer = torch.zeros(numel)
        self._link = socket.create_connection(("127.0.0.1", port))
        self._link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if kind == "tls":
            self._link = _tls(ssl.PROTOCOL_TLS_CLIENT, "").wrap_socket(self._link)

    def push(self, gradient: Tensor) -> None:
        """The bytes, then a byte back."""
        self._link.sendall(b"p")
        self._link.sendall(_bytes(gradient))
        self._link.recv(1)

    def pull(self, weights: Tensor) -> None:
        """The bytes, then a copy."""
        self._link.sendall(b"g")
        _fill(self._link, _bytes(self._buffer))
        weights.copy_(self._buffer)


# ── ours ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def serve_flight(pipe: Connection, kind: str, numel: int) -> None:
    """The service that every run has, with another machine behind it."""
    from tightwire.engines.quick import make_quick  # noqa: PLC0415

    make_quick()
    from tightwire.links.certificates import throw_away  # noqa: PLC0415 -- after malloc was told
    from tightwire.links.desk import Desk  # noqa: PLC0415
    from tightwire.links.door import Door  # noqa: PLC0415
    from tightwire.links.service import Service  # noqa: PLC0415
    from tightwire.links.tokens import fresh_token  # noqa: PLC0415
    from tightwire.server.wireform import WireForm  # noqa: PLC0415

    door = None
    if kind == "tls":
        made = throw_away()
        door = Door("grpc+tls://127.0.0.1:0", (fresh_token(""),), made.certificate, made.key)
    service = Service(WireForm(), door)
    pipe.send(service.add(Desk("center", Sum(numel))).write())
    pipe.recv()
    service.close()


class FlightEnd:
    """A worker's real client. Through the socket it is told that its server is elsewhere."""

    def __init__(self, place: str, kind: str, numel: int) -> None:
        from tightwire.engines.quick import make_quick  # noqa: PLC0415

        make_quick()
        from dataclasses import replace  # noqa: PLC0415

        from tightwire.links.flight import Place  # noqa: PLC0415
        from tightwire.links.flight_client import Caller  # noqa: PLC0415
        from tightwire.server.wireform import WireForm  # noqa: PLC0415

        found = Place.read(place)
        found = found if kind == "shared" else replace(found, host="elsewhere")
        self._caller = Caller(found, host=0, me=1, form=WireForm())
        self._caller.come(10.0)
        self._sequence = 0

    def push(self, gradient: Tensor) -> None:
        """One call."""
        self._sequence += 1
        event = Push(1, self._sequence, Meta(1, self._sequence, 0), {"w": gradient}, pull=False)
        self._caller.ask("center", event, 60.0)

    def pull(self, weights: Tensor) -> None:
        """One call, then a copy."""
        weights.copy_(self._caller.ask("center", Peek(1), 60.0).wires["w"])


# ── torch RPC ─────────────────────────────────────────────────────────────────────────────────────────────────────

_served: list[Sum] = []  # RPC calls functions, so what they act on lies in the module


def _options(port: int) -> rpc.TensorPipeRpcBackendOptions:
    return rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}", rpc_timeout=60)


def rpc_push(gradient: Tensor) -> None:
    """At the server."""
    _served[0].center.sub_(gradient)


def rpc_pull() -> Tensor:
    """At the server."""
    return _served[0].center


def serve_rpc(pipe: Connection, kind: str, numel: int) -> None:
    """Nothing but the centre: TensorPipe runs the functions."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    _served.append(Sum(numel))
    pipe.send(port)
    rpc.init_rpc("server", rank=0, world_size=2, rpc_backend_options=_options(port))
    pipe.recv()


class RpcEnd:
    """`rpc_sync` with tensors."""

    def __init__(self, port: int, kind: str, numel: int) -> None:
        rpc.init_rpc("worker", rank=1, world_size=2, rpc_backend_options=_options(port))

    def push(self, gradient: Tensor) -> None:
        """One call."""
        rpc.rpc_sync("server", rpc_push, args=(gradient,))

    def pull(self, weights: Tensor) -> None:
        """One call, then a copy."""
        weights.copy_(rpc.rpc_sync("server", rpc_pull))


# ── Ray ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def serve_ray(pipe: Connection, kind: str, numel: int) -> None:
    """Ray starts its actors itself."""
    pipe.send(None)
    pipe.recv()


class RayEnd:
    """An actor that holds the centre; arrays go through Ray's own shared memory."""

    def __init__(self, nothing: None, kind: str, numel: int) -> None:
        ray: Any = importlib.import_module("ray")  # an optional peer

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=2 << 30)
        self._get: Callable[[Any], Any] = ray.get
        self.close: Callable[[], None] = ray.shutdown  # or its own processes outlive it
        self._actor = ray.remote(RayServer).remote(numel)

    def push(self, gradient: Tensor) -> None:
        """One call."""
        self._get(self._actor.push.remote(gradient.numpy()))

    def pull(self, weights: Tensor) -> None:
        """One call, then a copy."""
        weights.numpy()[:] = self._get(self._actor.pull.remote())


class RayServer:
    """The same server as an actor."""

    def __init__(self, numel: int) -> None:
        torch.set_num_threads(1)
        self._machine = Sum(numel)

    def push(self, gradient: np.ndarray[Any, Any]) -> None:
        """Subtract."""
        center = self._machine.center.numpy()
        center -= gradient

    def pull(self) -> np.ndarray[Any, Any]:
        """The centre."""
        return self._machine.center.numpy()
