"""What was measured on this machine, in one small file: ``~/.cache/tightwire/forms.json``.

Figures of another processor or another torch are not used. A file that cannot be read or written costs time, nothing
else: it is measured again.
"""

from __future__ import annotations

import json
import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import torch

from tightwire.files import write_json

_MOST = 10_000  # entries; an older file is begun anew


def default_path() -> Path:
    """In the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tightwire" / "forms.json"


def this_machine() -> str:
    """Processor and torch."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return f"{line.split(':')[1].strip()}, {os.cpu_count()} cores, torch {torch.__version__}"
    return f"{platform.machine()} {platform.processor()}, {os.cpu_count()} cores, torch {torch.__version__}"


@dataclass(frozen=True)
class Remembered:
    """Seconds of each form by layer, in a file or nowhere."""

    path: Path | None

    def find(self, key: str) -> dict[str, float] | None:
        """What was measured for such a layer."""
        return self._read().get(key)

    def add(self, entries: dict[str, dict[str, float]]) -> None:
        """Keep measurements, replacing the file as a whole."""
        if self.path is None or not entries:
            return
        known = self._read()
        kept = {**(known if len(known) < _MOST else {}), **entries}
        with suppress(OSError):
            write_json(self.path, {"machine": this_machine(), "seconds": kept}, indent=0)

    def _read(self) -> dict[str, dict[str, float]]:
        if self.path is None:
            return {}
        with suppress(OSError, ValueError):
            record = json.loads(self.path.read_text(encoding="utf-8"))
            if isinstance(record, dict) and record.get("machine") == this_machine():
                return {key: seconds for key, seconds in record.get("seconds", {}).items() if _sane(seconds)}
        return {}


def _sane(seconds: object) -> bool:
    return isinstance(seconds, dict) and all(isinstance(s, float) and isfinite(s) and s >= 0 for s in seconds.values())
