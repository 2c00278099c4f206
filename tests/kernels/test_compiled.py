"""Loops that Numba compiled are found in its cache by the next process; one that captures an intrinsic never was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

KEYS = """
import pkgutil
from importlib import import_module
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from tightwire import kernels
codegen = cpu_target.target_context.codegen()
for module in pkgutil.iter_modules(kernels.__path__):
    if "numba" in module.name:
        for name, loop in vars(import_module(f"tightwire.kernels.{module.name}")).items():
            if isinstance(loop, Dispatcher):
                print(module.name, name, loop._cache._index_key((), codegen)[-1])
"""
PRODUCT = """
import numpy as np
from tightwire.kernels.numba_lanes import NARROW, many
x, edge = np.zeros(NARROW, np.float32), np.zeros((1, 1), np.int32)
for word in (np.uint16, np.uint32):
    many(np.empty_like(x), x, np.zeros(1, word), edge, edge + 1, x, np.zeros((1, 1), np.int64), NARROW, 0, 1)
print("compiled", sum(many.stats.cache_misses.values()))
"""


def said(program: str, cache: Path) -> list[str]:
    """What a process of its own prints."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.splitlines()


def test_the_next_process_looks_for_the_same_programs_and_finds_them(tmp_path: Path) -> None:
    *keys, first = said(KEYS + PRODUCT, tmp_path)
    left = sorted(tmp_path.rglob("*.nb*"))
    *same_keys, second = said(KEYS + PRODUCT, tmp_path)
    assert same_keys == keys
    assert len(keys) > 40  # all loops of all modules
    assert (first, second) == ("compiled 2", "compiled 0")
    assert sorted(tmp_path.rglob("*.nb*")) == left
