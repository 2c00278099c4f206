"""A parameter server that stands alone: it keeps what workers describe to it, and says who is slow or silent."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from tightwire.engines.quick import make_quick
from tightwire.links.access import Access
from tightwire.links.door import Door

if TYPE_CHECKING:
    from tightwire.engines.joining import Joining
    from tightwire.run.chain_host import ChainHost


def serve(door: Door, say: Callable[[str], None], joining: Joining | None = None) -> None:
    """Serve until Ctrl-C or SIGTERM, and then until others have the shards that are kept here in a chain."""
    make_quick()  # before anything loads gRPC
    import torch  # noqa: PLC0415

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))  # each of gRPC's threads would have a team
    from tightwire.links.service import Service  # noqa: PLC0415
    from tightwire.run.chain_host import ChainHost  # noqa: PLC0415
    from tightwire.server.chainform import ChainForm  # noqa: PLC0415

    service = Service(ChainForm(), door)
    host = ChainHost((door.certificate, door.key) if door.certificate else None)
    service.make_desk = host.make_desk
    service.news = say
    over, at_once = threading.Event(), threading.Event()

    def end(signum: int, frame: FrameType | None) -> None:
        (at_once if over.is_set() else over).set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        say(f"listening on {service.listen().location}")
        if joining is not None:
            joining.start()
        while not over.wait(_LOOK_EVERY_S):
            pass
        if joining is not None:
            joining.end()
        _depart(host, at_once, say)
    finally:
        service.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _depart(host: ChainHost, at_once: threading.Event, say: Callable[[str], None]) -> None:
    """Stay until nobody needs what is kept here, for a while."""
    deadline = time.monotonic() + _DEPART_S
    needed = host.depart()
    if needed:
        say(f"shards that go to other servers first: {needed}; Ctrl-C again ends at once")
    while needed and time.monotonic() < deadline and not at_once.wait(_LOOK_EVERY_S):
        needed = host.depart()
    if needed:
        say(f"shards that were still kept here: {needed}")


def ask_status(where: str, access: Access, timeout_s: float = 10.0) -> dict[str, Any]:
    """What a server tells the bearer of a token, also of one that may only read."""
    from tightwire.links.flight import Place  # noqa: PLC0415 -- loads Arrow
    from tightwire.links.flight_client import Caller  # noqa: PLC0415
    from tightwire.server.wireform import WireForm  # noqa: PLC0415

    token = access.token()
    place = Place(where, token.secret if token else "", access.authority().decode())
    caller = Caller(place, host=where, me=-1, form=WireForm(), identity=access.identity())
    caller.connect(timeout_s)
    try:
        return {"server": where, "asked_at": time.time(), **caller.status(timeout_s)}
    finally:
        caller.drop()


_LOOK_EVERY_S = 0.5
_DEPART_S = 30.0
