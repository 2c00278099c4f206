"""A server of a run that is to be struck: it writes down how it does, so that who strikes knows whom, and when."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import torch

from tightwire.engines.leash import obey_leash
from tightwire.files import write_json
from tightwire.lab.enter import enter
from tightwire.links.malloc import keep_memory

_LOOK_EVERY_S = 0.1


def keep(listen: str, secret: str, status: str, namespace: str | None, join: list[str]) -> None:
    """Serve until SIGTERM, and then until others have what is kept here; offer oneself to those it should ``join``."""
    if namespace is not None:
        enter(namespace)  # before anything opens a socket
    obey_leash()
    keep_memory()
    torch.set_num_threads(1)
    from tightwire.engines.joining import Joining  # noqa: PLC0415 -- after the memory was seen to
    from tightwire.links.door import Door  # noqa: PLC0415
    from tightwire.links.service import Service  # noqa: PLC0415
    from tightwire.links.tokens import Token  # noqa: PLC0415
    from tightwire.run.chain_host import ChainHost  # noqa: PLC0415
    from tightwire.server.chainform import ChainForm  # noqa: PLC0415

    door = Door(listen, (Token("chaos", "write", secret),), hands_out=False)
    service, host, over = Service(ChainForm(), door), ChainHost(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    service.make_desk = host.make_desk
    service.listen()
    joining = Joining(door, at=listen, to=join, authority=b"", say=print)
    joining.start()
    while not (over.is_set() and host.depart() == 0):
        if over.is_set():
            joining.end()
        write_json(Path(status), {"pid": os.getpid(), "at": time.time(), "chains": host.report()})
        time.sleep(_LOOK_EVERY_S)
    service.close()
