"""What a lab leaves when its process is killed with -9: namespaces, which the next start removes."""

from __future__ import annotations

from collections.abc import Sequence

from tightwire.lab.errors import LabError
from tightwire.lab.names import NAMESPACES, is_alive, read_name
from tightwire.lab.processes import kill_inhabitants
from tightwire.lab.tools import ip


def clean_leftovers() -> tuple[str, ...]:
    """Remove the namespaces of labs whose process is dead, and what still runs in them; return their names.

    Labs in use and namespaces that no lab made are left alone.
    """
    found = sorted(entry.name for entry in NAMESPACES.iterdir()) if NAMESPACES.is_dir() else []
    dead = tuple(text for text in found if (name := read_name(text)) is not None and not is_alive(name.owner))
    remove(dead)
    return dead


def remove(namespaces: Sequence[str]) -> None:
    """Remove namespaces with all they hold: interfaces, addresses, queues. What is already gone is no error."""
    if not namespaces:
        return
    kill_inhabitants(namespaces)
    failed = None
    for name in namespaces:
        try:
            ip("netns", "delete", name)
        except LabError as error:  # another start may clean up at the same time
            failed = error if (NAMESPACES / name).exists() else failed
    if failed is not None:
        raise failed
