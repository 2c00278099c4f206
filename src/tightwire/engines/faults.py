"""What went wrong in a run without ending it, of all workers together: for its result."""

from __future__ import annotations

import json
from typing import Any

from tightwire.run.wire import Wire


def everyones_faults(wire: Wire) -> dict[str, Any]:
    """Refusals by reason, and the workers that were slow or silent. All workers call this together."""
    return merge([json.loads(said) for said in wire.everyones(json.dumps(wire.faults()).encode())])


def merge(told: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts are added up, names put together.

    >>> merge([{"refused": {"token": 2}, "slow": [1]}, {"refused": {"token": 1}, "slow": [3, 1]}, {}])
    {'refused': {'token': 3}, 'slow': [1, 3]}
    """
    whole: dict[str, Any] = {}
    for one in told:
        for kind, what in one.items():
            if isinstance(what, dict):
                counts = whole.setdefault(kind, {})
                for reason, count in what.items():
                    counts[reason] = counts.get(reason, 0) + count
            else:
                whole[kind] = sorted({*whole.get(kind, []), *what})
    return whole
