"""A worker does not outlive whoever started it, however that one died.

The kernel can kill a child when its parent dies, but a forked worker's parent is the fork server, which lives as long
as its children do. So each worker looks once a second whether its starter is still there.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

VARIABLE = "TIGHTWIRE_STARTER"
_LOOK_EVERY_S = 1.0


def leash() -> str:
    """This process, in a form that no later process can be mistaken for: pid and start time."""
    return _identity(os.getpid()) or ""


def obey_leash() -> None:
    """End this process when the one named in the environment is gone."""
    starter = os.environ.get(VARIABLE)
    if starter:
        threading.Thread(target=_watch, args=(starter,), daemon=True).start()


def _watch(starter: str) -> None:
    pid = int(starter.partition(":")[0])
    while _identity(pid) == starter:
        time.sleep(_LOOK_EVERY_S)
    os._exit(1)


def _identity(pid: int) -> str | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else f"{pid}:{fields[19]}"
