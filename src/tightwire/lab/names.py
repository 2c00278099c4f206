"""Whose namespace is it? The name says so: ``tw-<pid>-<start time>-<number>-<part>``.

    tw-4711-998877-0-h2          the third host of process 4711's first lab
        │    │    │  └ h0, h1, … or switch
        │    │    └ a process may have several labs
        │    └ when the process started, in the kernel's ticks since boot: a pid is reused, the pair is not
        └ the process that built the lab

So a lab whose process is gone can be told from one in use, and from everything that is not a lab at all. Names of
namespaces live in a memory file system: a reboot forgets them, as it forgets pids.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

NAMESPACES = Path("/var/run/netns")  # where `ip netns` keeps them
_NAME = re.compile(r"tw-([0-9]+)-([0-9]+)-([0-9]+)-(switch|h[0-9]+)")
_STATE, _START = 0, 19  # fields of /proc/PID/stat after the command's name


@dataclass(frozen=True)
class Owner:
    """A process, never mistaken for another."""

    pid: int
    started: int


@dataclass(frozen=True)
class Name:
    """The name of a lab's namespace.

    >>> str(Name(Owner(4711, 998877), 0, "h2"))
    'tw-4711-998877-0-h2'
    """

    owner: Owner
    number: int
    part: str

    def __str__(self) -> str:
        """As `ip netns list` shows it."""
        return f"tw-{self.owner.pid}-{self.owner.started}-{self.number}-{self.part}"


def read_name(text: str) -> Name | None:
    """The name, or None if no lab made it.

    >>> read_name("tw-4711-998877-0-h2").owner.pid, read_name("tw-mine")
    (4711, None)
    """
    found = _NAME.fullmatch(text)
    return Name(Owner(int(found[1]), int(found[2])), int(found[3]), found[4]) if found else None


def myself() -> Owner:
    """This process."""
    fields = _stat(os.getpid())
    assert fields is not None
    return Owner(os.getpid(), int(fields[_START]))


def is_alive(owner: Owner) -> bool:
    """Whether that very process still runs. One that was killed and not yet waited for does not."""
    fields = _stat(owner.pid)
    return fields is not None and int(fields[_START]) == owner.started and fields[_STATE] not in "ZX"


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()  # the command's name may hold spaces and parentheses
