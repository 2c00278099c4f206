"""The states of some shards as those of another number of shards: ranges of rows, put together and cut anew.

    two shards     w rows 0…3 │ w rows 4…9, b         ─▶ three shards     w rows 0…2 │ w rows 3…6 │ w rows 7…9, b

Everything that is kept by tensor (centre, state of the rule or optimizer, contributions that are held) goes with its
rows. Counts of workers are levelled, as after any change of world: shards may have come differently far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tightwire.algebra.tensors import Segment
from tightwire.rules.yours import whole_name

Named = Mapping[str, Tensor]


def reshard(states: Sequence[dict[str, Any]], layouts: Sequence[Sequence[Segment]]) -> list[dict[str, Any]]:
    """One state for each of the ``layouts``: the segments that a new shard has."""
    held = _held(states)
    made = []
    for number, layout in enumerate(layouts):
        state = {
            "center": _cut([state["center"] for state in states], layout),
            "mover": _mover([state["mover"] for state in states], layout),
            "version": max(state["version"] for state in states),
            "clocks": _least([state["clocks"] for state in states]),
            "offsets": {},
            "taken": {},
            "held": [{**like, "values": _cut(pieces, layout)} for like, pieces in held],
            "given": {},
            "staleness": dict(sum((Counter(state["staleness"]) for state in states), Counter())) if not number else {},
            "dropped": sum(state["dropped"] for state in states) if not number else 0,
        }
        made.append(state)
    return made


def _cut(pieces: Sequence[Named], layout: Sequence[Segment]) -> dict[str, Tensor]:
    """The rows of a layout, found among pieces of the same tensors; 0 where nobody has them."""
    return {segment.key: _rows(pieces, segment) for segment in layout}


def _rows(pieces: Sequence[Named], segment: Segment) -> Tensor:
    found = [(key, tensor) for named in pieces for key, tensor in named.items() if whole_name(key) == segment.name]
    like = found[0][1] if found else torch.zeros(())
    out = torch.zeros(segment.shape, dtype=like.dtype)
    rows = out.view(segment.rows, -1)
    for key, tensor in found:
        offset = int(key.partition("@")[2] or 0) - segment.first_row
        piece = tensor.reshape(-1, rows.shape[1])
        lo, hi = max(0, offset), min(segment.rows, offset + piece.shape[0])
        if lo < hi:
            rows[lo:hi] = piece[lo - offset : hi - offset]
    return out


def _mover(states: Sequence[dict[str, Any]], layout: Sequence[Segment]) -> dict[str, Any]:
    if "rule" in states[0]:
        fields = {field for state in states for field in state["rule"]}
        return {"rule": {field: _cut([state["rule"].get(field, {}) for state in states], layout) for field in fields}}
    kept: dict[str, dict[str, Any]] = {}
    for state in states:
        for place, key in enumerate(state["keys"]):
            kept[key] = state["optimizer"]["state"].get(place, {})
    keys = [segment.key for segment in layout]
    return {
        "optimizer": {"state": {i: _parameter(kept, segment) for i, segment in enumerate(layout)}},
        "keys": keys,
    }


def _parameter(kept: Mapping[str, dict[str, Any]], segment: Segment) -> dict[str, Any]:
    """What an optimizer keeps of some rows: tensors by row, numbers as they are."""
    pieces = {key: fields for key, fields in kept.items() if whole_name(key) == segment.name and fields}
    made: dict[str, Any] = {}
    for field in {field for fields in pieces.values() for field in fields}:
        values = {key: fields[field] for key, fields in pieces.items() if field in fields}
        one = next(iter(values.values()))
        by_row = isinstance(one, Tensor) and one.dim() > 0
        made[field] = _rows([values], segment) if by_row else max(values.values())
    return made


def _held(states: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], list[Named]]]:
    """Every contribution that some shard holds: what is known of it, and its pieces."""
    found: dict[tuple[int, int], tuple[dict[str, Any], list[Named]]] = {}
    for state in states:
        for held in state["held"]:
            worker_and_clock = (held["meta"]["worker"], held["meta"]["clock"])
            found.setdefault(worker_and_clock, (held, []))[1].append(held["values"])
    return list(found.values())


def _least(clocks: Sequence[Mapping[int, int]]) -> dict[int, int]:
    return {worker: min(c[worker] for c in clocks if worker in c) for c in clocks for worker in c}
