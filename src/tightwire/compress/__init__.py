"""Deep Compression: prune, share, code, and run from the file.

    prune → share → `SharedWeights` → code → `.twz` → run

The value in the middle is all that the parts know of each other. Names are imported when they are asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tightwire.compress.run.load import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    if name == "load":
        from tightwire.compress.run.load import load  # noqa: PLC0415 -- torch comes with it

        return load
    raise AttributeError(f"module 'tightwire.compress' has no attribute {name!r}")
