"""Who is at a server: who came, who was heard when, who is slow and who has fallen silent, by name.

    heard   with every question and every heartbeat
    silent  present, and nothing was heard for a while: stopped, cut off, or its machine is gone
    slow    asks less than a third as often as the worker in the middle

Nothing here looks at a clock: whoever asks says what time it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from threading import Lock
from typing import Any, NamedTuple

SILENT_S = 10.0
_FEWEST = 10  # questions of the worker in the middle before anybody is called slow
_SLOW = 1 / 3


class Guest(NamedTuple):
    """A worker: of which run, in which of its attempts, and its rank."""

    run: str
    room: str
    rank: int

    def __str__(self) -> str:
        """As people call it."""
        return f"rank {self.rank}" + (f" of {self.run}" if self.run else "")


@dataclass
class Visit:
    """What is known of one guest."""

    since: float
    heard: float
    asked: int = 0
    calls: int = 0  # that it keeps open to be known to live
    reported: str = ""  # silent or slow, once said


class Attendance:
    """All guests of a server.

    >>> here = Attendance(); here.came(Guest("", "", 3), 0.0); here.news(11.0)
    ['rank 3 has been silent for 11 s']
    """

    def __init__(self) -> None:
        self._visits: dict[Guest, Visit] = {}
        self._noticed: dict[str, dict[str, set[int]]] = {}  # of each run: who was ever slow, who silent
        self._lock = Lock()

    def came(self, guest: Guest, now: float) -> None:
        """It will be heard from now on; it may come on several connections."""
        with self._lock:
            self._visits.setdefault(guest, Visit(now, now)).calls += 1

    def broke(self, guest: Guest) -> bool:
        """One of its connections is gone; True if it was the last, or it was not here."""
        with self._lock:
            visit = self._visits.get(guest)
            if visit is not None:
                visit.calls -= 1
            return visit is None or visit.calls <= 0

    def heard(self, guest: Guest, now: float, *, asked: int = 0) -> None:
        """It lives; ``asked`` so many questions. Who never came is not noted."""
        with self._lock:
            visit = self._visits.get(guest)
            if visit is not None:
                visit.heard, visit.asked = now, visit.asked + asked

    def left(self, guest: Guest) -> bool:
        """It is not here any more; False if it was not."""
        with self._lock:
            return self._visits.pop(guest, None) is not None

    def here(self, run: str | None = None, room: str | None = None) -> list[Guest]:
        """Who is present: of all runs, of one, or of one attempt."""
        with self._lock:
            return sorted(g for g in self._visits if run in (None, g.run) and room in (None, g.room))

    def alive(self, guests: Iterable[Guest], now: float) -> list[Guest]:
        """Those that have been heard lately."""
        with self._lock:
            return [g for g in guests if g in self._visits and now - self._visits[g].heard < SILENT_S]

    def news(self, now: float) -> list[str]:
        """Who fell silent, is slow, or is well again since this was asked last; a sentence each."""
        said = []
        with self._lock:
            for guest, visit in self._visits.items():
                state, text = self._state(guest, visit, now)
                if state != visit.reported:
                    said.append(text if state else f"{guest} is heard again" * (visit.reported == "silent"))
                    visit.reported = state
                    if state:
                        self._noticed.setdefault(guest.run, {}).setdefault(state, set()).add(guest.rank)
        return [text for text in said if text]

    def report(self, run: str, now: float) -> list[dict[str, Any]]:
        """Every worker of a run: how many questions, when heard, and how it does."""
        with self._lock:
            return [
                {
                    "rank": guest.rank,
                    "asked": visit.asked,
                    "heard_s_ago": round(now - visit.heard, 2),
                    "state": self._state(guest, visit, now)[0] or "well",
                }
                for guest, visit in sorted(self._visits.items())
                if guest.run == run
            ]

    def noticed(self, run: str) -> dict[str, list[int]]:
        """The ranks of a run that were slow or silent at some time, as far as `news` was asked for."""
        with self._lock:
            return {state: sorted(ranks) for state, ranks in self._noticed.get(run, {}).items()}

    def _state(self, guest: Guest, visit: Visit, now: float) -> tuple[str, str]:
        quiet_s = now - visit.heard
        if quiet_s > SILENT_S:
            return "silent", f"{guest} has been silent for {quiet_s:.0f} s"
        rates = [
            v.asked / max(now - v.since, 1e-9) for g, v in self._visits.items() if (g.run, g.room) == guest[:2]
        ]  # fmt: skip
        middle, mine = median(rates), visit.asked / max(now - visit.since, 1e-9)
        if middle * (now - visit.since) >= _FEWEST and mine < _SLOW * middle:
            return "slow", f"{guest} is slow: {mine:.2g} questions a second where others ask {middle:.2g}"
        return "", ""
