"""Kernels that need a compiler, loaded when they are first needed, or not at all."""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from types import ModuleType


@cache
def compiled(compiler: str, what: str, family: str = "topk") -> ModuleType | None:
    """``kernels/COMPILER_FAMILY.py``, or None with a notice, once, where its compiler is missing."""
    try:
        import_module(compiler)
        return import_module(f"tightwire.kernels.{compiler}_{family}")
    except ImportError:
        warnings.warn(
            f"{compiler} is not installed: {what} takes several times as long; pip install {compiler}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
