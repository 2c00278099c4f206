"""Where events go."""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import IO, Protocol

from tightwire.telemetry.event import Event


class Sink(Protocol):
    """Takes events."""

    def take(self, event: Event) -> None:
        """Take one event."""
        ...

    def close(self) -> None:
        """No more will come."""
        ...


class Silence:
    """Nowhere."""

    def take(self, event: Event) -> None:
        """Forget it."""

    def close(self) -> None:
        """Nothing to do."""


class Several:
    """Everywhere."""

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = sinks

    def take(self, event: Event) -> None:
        """Hand it to all."""
        for sink in self._sinks:
            sink.take(event)

    def close(self) -> None:
        """Close all."""
        for sink in self._sinks:
            sink.close()


class Memory:
    """A list, for tests and notebooks."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def take(self, event: Event) -> None:
        """Keep it."""
        self.events.append(event)

    def close(self) -> None:
        """Nothing to do."""


class JsonLines:
    """One JSON object a line; the file is opened with the first event."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None
        self._lock = Lock()  # events come from the comm thread too

    def take(self, event: Event) -> None:
        """Write a line."""
        plain = {key: _finite(value) for key, value in event.as_dict().items()}
        line = json.dumps(plain, separators=(",", ":"), allow_nan=False) + "\n"
        with self._lock:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self.path.open("a", buffering=1, encoding="utf-8")  # whole lines: a killed run keeps them
            self._file.write(line)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _finite(value: object) -> object:
    """A number that JSON has no word for is null."""
    return None if isinstance(value, float) and not isfinite(value) else value
