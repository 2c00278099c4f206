"""Entropy coding loops, found by lookup: compiled by Numba, or the plain Python they must equal.

    huffman    canonical words of at most 16 bits, lowest bit first, in one stream or four
    rans       four interleaved states of 32 bits over one stream of 16-bit words
    mixing     binary arithmetic coding under a mixture of adaptive contexts

Both engines offer the same functions. They never raise on hostile bytes and never read outside them: a decoder says
whether the bytes ended where they should, and the caller refuses. `entropy_plain` is the definition, `entropy_numba`
the speed; a test holds them equal on both sides.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from typing import Any, Literal, TypeAlias

Engine: TypeAlias = Literal["numba", "plain"]


@cache
def entropy(engine: Engine | None = None) -> Any:
    """The loops: those asked for, else Numba's where it is installed, else plain ones with a notice."""
    if engine is not None:
        return import_module(f"tightwire.kernels.entropy_{engine}")
    try:
        return import_module("tightwire.kernels.entropy_numba")
    except ImportError:
        warnings.warn(
            "numba is not installed: entropy coding takes a hundred times as long; pip install numba",
            RuntimeWarning,
            stacklevel=2,
        )
        return import_module("tightwire.kernels.entropy_plain")
