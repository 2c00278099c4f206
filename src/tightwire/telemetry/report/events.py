"""One worker's file of events, read into its steps.

A restarted worker appends to the file of the one before it, so a file is a sequence of processes:

    Joined ── Stepped 0 … Stepped 57 ✂    Joined ── Restored 50 ── Stepped 50 … Stepped 99
    └── clock of the first process ──┘    └── another clock: goes on where the first one ended ──┘

Steps that were taken again replace those taken before (50 to 57 here). A process that was killed may leave half a line:
at the end of the file it is skipped, before the next process's first line it is cut off.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from tightwire.telemetry.report.record import Note, ReportError

_UNUSED = tuple(f'{{"event":"{kind}"'.encode() for kind in ("Ready", "Started", "Finished"))
_BEGINS = b'{"event":'
_REBOOT_S = 1.0  # a clock going back by more than threads can mix up lines belongs to another process


class Point(NamedTuple):
    """One step of one worker."""

    steps: int  # steps taken, this one included
    seconds: float
    tx_bytes: float
    rx_bytes: float
    loss: float | None


@dataclass
class Track:
    """What one worker's file tells."""

    rank: int
    points: list[Point] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    processes: int = 0
    composition: str = ""
    saved: int = 0


def read_track(path: Path, rank: int) -> Track:
    """Read the file of worker ``rank``; a damaged line is named."""
    reader = _Reader(Track(rank))
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip() or line.startswith(_UNUSED):
                    continue
                try:
                    reader.take(_parse(line))
                except (ValueError, KeyError, TypeError):
                    if line.endswith(b"\n"):  # else it is the last: a run in progress, or killed
                        raise ReportError(
                            f"{path} is damaged: line {number} is not an event; remove that line, or leave out the run"
                        ) from None
    except OSError as error:
        raise ReportError(f"{path} cannot be read ({error.strerror}); check its rights") from None
    return reader.track


def _parse(line: bytes) -> dict[str, Any]:
    """The event of a line; if a killed process left half a line before it, that half is dropped."""
    try:
        event = json.loads(line)
    except ValueError:
        event = json.loads(line[line.rindex(_BEGINS) :])
    if not isinstance(event, dict):
        raise TypeError("not an event")
    return event


class _Reader:
    """Takes events in the order of the file."""

    def __init__(self, track: Track) -> None:
        self.track = track
        self._began_s = 0.0  # this process's clock when it began
        self._before_s = 0.0  # how long the processes before it ran
        self._elapsed_s = 0.0

    def take(self, event: dict[str, Any]) -> None:
        """Take one event; what is missing in it or of the wrong kind raises."""
        kind, steps, time_s = event["event"], int(event["step"]), float(event["time_s"])
        if not isfinite(time_s):
            raise ValueError("a clock does not stand at infinity")
        self._tick(time_s, joined=kind == "Joined")
        match kind:
            case "Stepped":
                self._step(event, steps + 1)
            case "Joined":
                self.track.composition = str(event["recipe"])
            case "Noted":
                self._note(steps, str(event["text"]))
            case "Switched":
                self._note(steps, f"a new phase began: {str(event['recipe']).partition('(')[0]}")
            case "Skipped":
                self._note(steps, f"step skipped: {event['reason']}")
            case "Restored":
                changes = [str(change) for change in event["changes"]]
                self._note(steps, "; ".join([f"went on from the checkpoint of step {steps}", *changes]))
            case "Saved":
                self.track.saved += 1

    def _tick(self, time_s: float, *, joined: bool) -> None:
        passed = self._before_s + time_s - self._began_s
        if joined or not self.track.processes or passed < self._elapsed_s - _REBOOT_S:
            self._before_s, self._began_s = self._elapsed_s, time_s
            self.track.processes += 1
        self._elapsed_s = max(self._elapsed_s, self._before_s + time_s - self._began_s)

    def _step(self, event: dict[str, Any], steps: int) -> None:
        points = self.track.points
        while points and points[-1].steps >= steps:  # taken again after a restart
            points.pop()
        loss = None if event["loss"] is None else float(event["loss"])
        points.append(Point(steps, self._elapsed_s, float(event["tx_bytes"]), float(event["rx_bytes"]), loss))

    def _note(self, steps: int, text: str) -> None:
        self.track.notes.append(Note(steps, (self.track.rank,), text))
