"""Workloads to train on: `load(name, folder)` reads one, `shards` deals its training set out. Downloads nothing.

The names stand in `names`, which imports no torch; a reader is imported when its data set is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tightwire.data.catalogue import load
from tightwire.data.errors import DataError
from tightwire.data.names import DATA, DataName, describe
from tightwire.data.values import Data, Task

if TYPE_CHECKING:
    from tightwire.data.rows import collate
    from tightwire.data.sharding import OwnShards, shards

__all__ = ["DATA", "Data", "DataError", "DataName", "OwnShards", "Task", "collate", "describe", "load", "shards"]

_HOME = {
    "OwnShards": "tightwire.data.sharding",
    "collate": "tightwire.data.rows",
    "shards": "tightwire.data.sharding",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'tightwire.data' has no attribute {name!r}")
