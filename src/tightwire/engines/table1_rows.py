"""The rows of Table 1 of the layer-wise paper, one after another; what is known already is not measured again.

    cores and layers are timed once ─▶ a plan for P workers ─▶ the run that counts, after short ones in which columns
    move from those who are late to those who wait (`engines.table1_deal`)

Speed is that of made-up frames on this machine. Frame accuracy comes from runs on real frames (`benchmarks.frames`),
which are told here by file.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from tightwire import __version__
from tightwire.engines.table1 import Size, cores_of, layers_of, timed
from tightwire.engines.table1_deal import TRIALS
from tightwire.files import write_json
from tightwire.splits.balance import Layer, balance

SYSTEMS = (
    "serial", "ceiling", "synchronous", "asgd", "layer-wise", "layer-wise half", "layer-wise gloo",
    "layer-wise memory", "whole layers",
)  # fmt: skip
SPLIT = SYSTEMS[4:]
FRAMES_IN_10_HOURS = 10 * 3600 * 100
Tell = Callable[[str], None]


class Table:
    """The figures of one machine and one size of network, kept in a file."""

    def __init__(self, path: Path, size: Size, tell: Tell) -> None:
        self.path = path
        self.size = size
        self.found: dict[str, Any] = {
            **about(),
            "size": asdict(size),
            "cores": {},
            "layers": [],
            "plans": {},
            "rows": [],
        }
        self._tell = tell
        if path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            if all(kept.get(key) == self.found[key] for key in ("size", "machine")):
                self.found = kept

    def row(self, system: str, workers: int) -> dict[str, Any] | None:
        """A row that is known."""
        rows = self.found["rows"]
        return next((row for row in rows if (row["system"], row["workers"]) == (system, workers)), None)

    def measure(self, system: str, workers: int) -> None:
        """Add a row, unless it is there; write the file."""
        if self.row(system, workers) is not None:
            return
        self._tell(f"{system}, {workers} worker{'s' * (workers > 1)}")
        plan = self._planned(system, workers) if system in SPLIT else {}
        made = timed(system, workers, self.size, plan, self._cores())
        if plan:
            plan["columns"] = made.pop("columns")
        self.found["rows"].append({**made, **({"plan": {**plan}} if plan else {})})
        self.found["command"] = command(self.size, self.found["rows"])
        self._judge()
        self._save()

    def _cores(self) -> list[int]:
        if not self.found.get("cores"):
            self.found["cores"] = cores_of()
            self._save()
        order: list[int] = self.found["cores"]["order"]
        return order

    def _planned(self, system: str, workers: int) -> dict[str, Any]:
        """The plan for a row. Rows that differ only in how messages travel begin with the columns of the first."""
        if system.startswith("layer-wise "):
            settled = self.row("layer-wise", workers) is not None
            plain = {**self._planned("layer-wise", workers), "trials": TRIALS[-1:] if settled else TRIALS}
            return {**plain, "codec": "half"} if system == "layer-wise half" else plain
        key = f"{system}, {workers}"
        if "trials" not in self.found["plans"].get(key, {}):  # files of before have none
            self.found["plans"][key] = self._plan(workers, wide=system == "layer-wise")
        plan: dict[str, Any] = self.found["plans"][key]
        return plan

    def _plan(self, workers: int, *, wide: bool) -> dict[str, Any]:
        if not self.found["layers"]:
            self.found["layers"] = [asdict(layer) for layer in layers_of(self.size, self._cores())]
            self._save()
        layers = [Layer(**layer) for layer in self.found["layers"]]
        if not wide:
            layers = [replace(layer, columns=0) for layer in layers]
        plan = balance(layers, workers)
        self._tell(f"  {plan.why}")
        cut, last = plan.cut, layers[-1]
        edges = (0, *(cut.cuts or ()), *(() if cut.wide else (len(layers),)))
        layers_s = [sum(layer.seconds for layer in layers[lo:hi]) for lo, hi in pairwise(edges)]
        return {
            "stages": plan.stages, "cuts": cut.cuts, "wide": cut.wide, "columns": cut.columns, "why": plan.why,
            "planned_speedup": plan.speedup, "trials": TRIALS, "layers_s": layers_s + [0.0] * (workers - len(layers_s)),
            "column_s": last.seconds / last.columns if last.columns else 0.0,
        }  # fmt: skip

    def _judge(self) -> None:
        """S, E, minutes, the share of the ceiling, and how many times fewer bytes than synchronous, of all rows."""
        serial = self.row("serial", 1)
        for row in self.found["rows"]:
            rate, ceiling = row["samples_per_second"], self.row("ceiling", row["workers"])
            row["minutes_per_10_hours"] = FRAMES_IN_10_HOURS / rate / 60
            row["S"] = rate / serial["samples_per_second"] if serial else None
            row["E"] = row["S"] / row["workers"] if row["S"] else None
            row["of_ceiling"] = rate / ceiling["samples_per_second"] if ceiling else None
            synchronous, sent = self.row("synchronous", row["workers"]), sum(row["tx_bytes_a_minibatch"])
            row["fewer_bytes"] = sum(synchronous["tx_bytes_a_minibatch"]) / sent if synchronous and sent else None

    def _save(self) -> None:
        write_json(self.path, self.found, indent=1)


def command(size: Size, rows: Sequence[Mapping[str, Any]]) -> str:
    """What makes these rows anew.

    >>> command(Size(rounds=5), [{"system": "serial", "workers": 1}, {"system": "layer-wise", "workers": 4}])
    'tightwire bench table1 --workers 1,4 --systems "serial,layer-wise" --rounds 5'
    """
    workers, systems = (",".join(dict.fromkeys(str(row[key]) for row in rows)) for key in ("workers", "system"))
    sizes = {name: value for name, value in asdict(size).items() if value != getattr(Size(), name)}
    said = "".join(f" --{name} {value}" for name, value in sizes.items())
    return f'tightwire bench table1 --workers {workers} --systems "{systems}"{said}'


def about() -> dict[str, Any]:
    """What figures were measured on, and with."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "benchmark": "table1",
        "command": "tightwire bench table1",
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "tightwire": __version__},
        "machine": {
            "cpu": names[0] if names else platform.processor(),
            "cores": os.cpu_count(),
            "gpu": None,
            "system": platform.platform(),
        },
    }


def wanted(systems: Sequence[str], workers: Sequence[int]) -> list[tuple[str, int]]:
    """The rows, in the order in which they are measured: the ceiling right before what is compared with it.

    >>> wanted(("serial", "ceiling", "whole layers", "layer-wise"), (1, 2))
    [('serial', 1), ('ceiling', 2), ('layer-wise', 2), ('whole layers', 2)]
    """
    rows = [("serial", 1)] if "serial" in systems else []
    for order in (
        ("ceiling", "layer-wise", "layer-wise gloo", "layer-wise memory", "synchronous", "asgd"),
        ("layer-wise half", "whole layers"),
    ):
        rows += [(system, count) for count in workers if count > 1 for system in order if system in systems]
    return rows
