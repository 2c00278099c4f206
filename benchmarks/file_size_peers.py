"""zipnn's and NNCodec's bytes, in a Python of their own: `python file_size_peers.py FOLDER` prints one JSON object.

NNCodec imports packages for networks and data sets, none of which are needed; where one is missing or broken an empty
module stands in.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import io
import json
import sys
import types
from typing import Any
from unittest.mock import MagicMock

import numpy as np


class _Empty(types.ModuleType):
    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


_UNNEEDED = (
    "torchvision",
    "cv2",
    "pandas",
    "sklearn",
    "ptflops",
    "torchmetrics",
    "wandb",
    "flwr",
    "timm",
    "transformers",
)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        known = name.partition(".")[0] in _UNNEEDED
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _nncodec(levels: dict[str, Any]) -> int:
    sys.meta_path.insert(0, _Finder())
    with contextlib.redirect_stdout(io.StringIO()):
        from nncodec.nn import decode, encode  # noqa: PLC0415

        stream = encode(levels)
        back = decode(stream)
    assert all(np.array_equal(back[name], levels[name]) for name in levels), "NNCodec lost something"
    return len(stream)


def _zipnn(dense: dict[str, Any]) -> int:
    from zipnn import ZipNN  # noqa: PLC0415

    packer = ZipNN(bytearray_dtype="float32", input_format="byte")
    with contextlib.redirect_stdout(io.StringIO()):
        return sum(len(packer.compress(bytearray(array.astype(np.float32).tobytes()))) for array in dense.values())


def main() -> None:
    """Code everything and print the sizes."""
    folder = sys.argv[1]
    dense, levels = (dict(np.load(f"{folder}/{name}.npz")) for name in ("dense", "levels"))
    print(json.dumps({"zipnn": _zipnn(dense), "nncodec": _nncodec(levels)}))


if __name__ == "__main__":
    main()
