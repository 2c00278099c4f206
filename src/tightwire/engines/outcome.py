"""What a run leaves in its folder, and what its workers tell whoever started them.

runs/x/config.json            what was asked for
runs/x/plan.json              how many steps that is
runs/x/events/rank-0.jsonl    what happened, worker by worker
runs/x/checkpoints/           the last two checkpoints
runs/x/pids/rank-0            which process is which worker, while it lives
runs/x/logs/                  what workers printed
runs/x/outcome/rank-0.json    how each worker ended: done, stopped, or an error in one sentence
runs/x/result.json            the figures, when the run is over
runs/x/model.safetensors      the answer
runs/x/stop                   exists while somebody wants the run to stop
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tightwire.files import write_json

Ended = Literal["done", "stopped", "error"]


@dataclass(frozen=True)
class Outcome:
    """How one worker ended."""

    ended: Ended
    step: int = 0
    text: str = ""
    result: dict[str, Any] | None = None

    def write(self, folder: Path, rank: int) -> None:
        """Leave it for the starter to find; a reader never sees half of it."""
        write_json(folder / "outcome" / f"rank-{rank}.json", vars(self))


def read_outcomes(folder: Path) -> dict[int, Outcome]:
    """How the workers ended that have, by rank."""
    found = {}
    for path in sorted((folder / "outcome").glob("rank-*.json")):
        found[int(path.stem.removeprefix("rank-"))] = Outcome(**json.loads(path.read_text(encoding="utf-8")))
    return found


def failures(folder: Path) -> list[Path]:
    """The files of workers that ended with an error."""
    return [folder / "outcome" / f"rank-{rank}.json" for rank, o in read_outcomes(folder).items() if o.ended == "error"]


def clear_outcomes(folder: Path) -> None:
    """Forget how workers ended before."""
    shutil.rmtree(folder / "outcome", ignore_errors=True)
    stop_file(folder).unlink(missing_ok=True)


def stop_file(folder: Path) -> Path:
    """While this file exists, workers save and stop at the next opportunity."""
    return folder / "stop"


def write_result(folder: Path, result: dict[str, Any]) -> None:
    """Write ``result.json``, whole or not at all."""
    write_json(folder / "result.json", result, indent=1)
