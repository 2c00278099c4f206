"""A parameter server that stands alone: it keeps what workers describe to it, and says who is slow or silent."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from tightwire.engines.quick import make_quick
from tightwire.links.access import Access
from tightwire.links.door import Door


def serve(door: Door, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    make_quick()  # before anything loads gRPC
    import torch  # noqa: PLC0415

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))  # each of gRPC's threads would have a team
    from tightwire.links.service import Service  # noqa: PLC0415
    from tightwire.run.chain_host import ChainHost  # noqa: PLC0415
    from tightwire.server.chainform import ChainForm  # noqa: PLC0415

    service = Service(ChainForm(), door)
    service.make_desk = ChainHost((door.certificate, door.key) if door.certificate else None).make_desk
    service.news = say
    over = threading.Event()

    def end(signum: int, frame: FrameType | None) -> None:
        over.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        say(f"listening on {service.listen().location}")
        while not over.wait(_LOOK_EVERY_S):
            pass
    finally:
        service.close()
        for number, handler in before.items():
            signal.signal(number, handler)


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
