"""How old contributions were when they were applied, over all servers that a worker deals with."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tightwire.run.worker import Worker


def staleness_of(worker: Worker) -> dict[str, Any] | None:
    """Mean, maximum and histogram of ages in updates of the centre; None where nothing was applied."""
    ages: Counter[int] = Counter()
    dropped = 0
    for client in worker.clients.values():
        counts, unused = client.staleness()
        ages.update(counts)
        dropped += unused
    applied = ages.total()
    if not applied:
        return None
    return {
        "mean": sum(age * count for age, count in ages.items()) / applied,
        "max": max(ages),
        "histogram": {str(age): ages[age] for age in sorted(ages)},
        "dropped": dropped,
    }
