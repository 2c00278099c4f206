"""A run watched from outside: reads what its workers write, as they write it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any


@dataclass
class Seen:
    """What is known of one worker."""

    step: int = 0
    loss: float | None = None
    tx_bytes: int = 0
    step_s: float = 0.0  # how long the last steps took, on average
    time_s: float = 0.0
    notes: list[str] = field(default_factory=list)


class Follower:
    """Follows ``events/rank-*.jsonl`` of a run; `poll` takes in what is new."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "events"
        self._files: dict[int, IO[str]] = {}
        self._rest: dict[int, str] = {}
        self.workers: dict[int, Seen] = {}

    def poll(self) -> None:
        """Read whatever has been written since."""
        for path in self._folder.glob("rank-*.jsonl"):
            rank = int(path.stem.removeprefix("rank-"))
            if rank not in self._files:
                self._files[rank] = path.open(encoding="utf-8")
                self.workers[rank] = Seen()
            *lines, self._rest[rank] = (self._rest.get(rank, "") + self._files[rank].read()).split("\n")
            for line in lines:
                self._take(self.workers[rank], json.loads(line))

    def _take(self, seen: Seen, event: dict[str, Any]) -> None:
        match event["event"]:
            case "Stepped":
                took = event["time_s"] - seen.time_s
                if seen.time_s and 0 < took < 60:
                    seen.step_s = took if not seen.step_s else 0.9 * seen.step_s + 0.1 * took
                seen.step, seen.time_s, seen.tx_bytes = event["step"] + 1, event["time_s"], event["tx_bytes"]
                seen.loss = event["loss"] if event["loss"] is not None else seen.loss
            case "Noted":
                seen.notes.append(event["text"])
            case "Joined":
                seen.time_s = 0.0

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files.values():
            file.close()

    @property
    def step(self) -> int:
        """The step that every worker has reached."""
        return min((seen.step for seen in self.workers.values()), default=0)

    @property
    def loss(self) -> float | None:
        """The mean of the workers' last losses."""
        losses = [seen.loss for seen in self.workers.values() if seen.loss is not None]
        return sum(losses) / len(losses) if losses else None

    def slowest(self) -> tuple[int, float] | None:
        """The worker whose steps take longest, and how long."""
        timed = [(rank, seen.step_s) for rank, seen in self.workers.items() if seen.step_s]
        return max(timed, key=lambda entry: entry[1]) if timed else None
