"""The loops are found in the cache by the next process: they were compiled in every one of them once."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("numba")

KEYS = """
from numba.core.registry import cpu_target
from tightwire.kernels import numba_topk
codegen = cpu_target.target_context.codegen()
print([numba_topk._sweep(form, False)._cache._index_key((), codegen)[-1] for form in ("add", "heavy-ball", "nesterov")])
"""


def test_every_process_looks_for_the_same_program() -> None:
    said = [subprocess.run([sys.executable, "-c", KEYS], capture_output=True, text=True, check=True) for _ in range(2)]
    assert said[0].stdout == said[1].stdout
    assert said[0].stdout.count("(") == 3  # a key each
