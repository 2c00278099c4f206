"""A run folder, read into a `RunRecord`.

    config.json            what was asked for
    result.json            the figures, when the run is over
    outcome/rank-0.json    how each worker ended, if it did
    events/rank-0.jsonl    what happened, worker by worker

A run without a result (in progress, stopped, killed) is shown as far as it came.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from tightwire.telemetry.report.curve import merge
from tightwire.telemetry.report.events import Track, read_track
from tightwire.telemetry.report.record import Curve, Figures, Note, ReportError, RunRecord

State = Literal["done", "stopped", "failed", "unfinished"]


def read_run(folder: Path) -> RunRecord:
    """Read a run; what is missing or damaged is named in one sentence."""
    if not folder.is_dir():
        raise ReportError(f"{folder} is not a run: there is no such folder; name one that `tightwire train` wrote")
    config = _read_config(folder)
    tracks = [read_track(path, rank) for rank, path in _by_rank(folder / "events", ".jsonl")]
    if not any(track.points for track in tracks):
        raise ReportError(f"{folder} has no events yet; wait for its first step, or leave it out")
    result = _read_json(folder / "result.json")
    curve = merge(tracks)
    state, told = _ending(folder, done=result is not None)
    return RunRecord(
        folder=folder,
        config=config,
        figures=_so_far(config, curve, tracks) if result is None else _figures(result, folder / "result.json"),
        curve=curve,
        notes=(*told, *_gather(tracks), *_remarks(curve, tracks, result or {})),
        composition=next((track.composition for track in tracks if track.composition), ""),
        state=state,
        when=_when(folder),
    )


def _by_rank(folder: Path, suffix: str) -> list[tuple[int, Path]]:
    """The files ``rank-N`` of a folder, in the order of N."""
    found = ((path.stem.removeprefix("rank-"), path) for path in folder.glob(f"rank-*{suffix}"))
    return sorted((int(rank), path) for rank, path in found if rank.isdecimal())


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ReportError(f"{path} is damaged ({error}); restore it, or leave out the run") from None
    if not isinstance(found, dict):
        raise ReportError(f"{path} is damaged: it holds no JSON object; restore it, or leave out the run")
    return found


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    config = _read_json(path)
    if config is None:
        raise ReportError(f"{folder} is not a run: it has no config.json; name a folder that `tightwire train` wrote")
    workers, params = config.get("workers"), config.get("params", {})
    if not isinstance(config.get("recipe"), str) or type(workers) is not int or not isinstance(params, dict):
        raise ReportError(f"{path} is damaged: it names no recipe or no workers; restore it, or leave out the run")
    return config


def _figures(result: Mapping[str, Any], path: Path) -> Figures:
    wire, staleness, faults = (_inside(result, key, path) for key in ("wire", "staleness", "faults"))

    def figure(holder: Mapping[str, Any], key: str) -> float | None:
        value = holder.get(key)
        if value is None:
            return None
        if type(value) not in (int, float):
            raise ReportError(f"{path} is damaged: {key} is {value!r}, not a number; restore it, or leave out the run")
        return float(value) if isfinite(value) else None

    return Figures(
        seconds=figure(result, "seconds"),
        samples_per_second=figure(result, "samples_per_second"),
        accuracy=None if result.get("diverged") else figure(result, "test_accuracy"),
        perplexity=figure(result, "perplexity"),
        tx_bytes=figure(wire, "tx_bytes"),
        rx_bytes=figure(wire, "rx_bytes"),
        measured_tx_bytes=figure(wire, "measured_tx_bytes"),
        measured_rx_bytes=figure(wire, "measured_rx_bytes"),
        payload_ratio=figure(wire, "payload_ratio"),
        staleness_mean=figure(staleness, "mean"),
        staleness_max=figure(staleness, "max"),
        staleness_counts=_counts(_inside(staleness, "histogram", path), path),
        restarts=int(figure(faults, "restarts") or 0),
        link=str(wire["link"]) if wire.get("link") else None,
    )


def _inside(holder: Mapping[str, Any], key: str, path: Path) -> Mapping[str, Any]:
    value = holder.get(key) or {}
    if not isinstance(value, Mapping):
        raise ReportError(f"{path} is damaged: {key} is {value!r}, not an object; restore it, or leave out the run")
    return value


def _counts(found: Mapping[str, Any], path: Path) -> dict[int, float]:
    """How many contributions were how old; JSON makes strings of the ages."""
    try:
        return dict(sorted((int(age), float(count)) for age, count in found.items()))
    except (TypeError, ValueError):
        raise ReportError(f"{path} is damaged: staleness counts are {found!r}; leave out the run") from None


def _so_far(config: Mapping[str, Any], curve: Curve, tracks: Iterable[Track]) -> Figures:
    """The figures of a run without a result, from its events."""
    batch, seconds = config.get("batch"), curve.seconds[-1]
    samples = curve.steps[-1] * batch * config["workers"] if type(batch) is int else None
    return Figures(
        seconds=seconds,
        samples_per_second=samples / seconds if samples and seconds else None,
        tx_bytes=curve.tx_bytes[-1],
        rx_bytes=curve.rx_bytes[-1],
        restarts=max(track.processes for track in tracks) - 1,
    )


def _ending(folder: Path, *, done: bool) -> tuple[State, list[Note]]:
    """How the run ended, and what its workers said if it was an error."""
    if done:
        return "done", []
    ended, told = set(), []
    for rank, path in _by_rank(folder / "outcome", ".json"):
        outcome = _read_json(path) or {}
        ended.add(outcome.get("ended"))
        if outcome.get("ended") == "error":
            told.append(Note(int(outcome.get("step") or 0), (rank,), f"ended with an error: {outcome.get('text')}"))
    if told:
        return "failed", told
    return ("stopped" if "stopped" in ended else "unfinished"), []


def _gather(tracks: Iterable[Track]) -> list[Note]:
    """All workers' notes in order; what several said at the same step is told once."""
    ranks: dict[tuple[int, str], list[int]] = {}
    for track in tracks:
        for note in track.notes:
            heard = ranks.setdefault((note.steps, note.text), [])
            if track.rank not in heard:
                heard.append(track.rank)
    return [Note(steps, tuple(heard), text) for (steps, text), heard in sorted(ranks.items())]


def _remarks(curve: Curve, tracks: list[Track], result: Mapping[str, Any]) -> list[Note]:
    """What no single event says."""
    remarks, last = [], curve.steps[-1]
    if result.get("diverged"):
        remarks.append(Note(last, (), "diverged: the answer is not finite"))
    missing = sum(loss is None for loss in curve.loss)
    if missing:
        remarks.append(Note(last, (), f"no finite loss in {missing} of {len(curve.loss)} steps"))
    saved = max(track.saved for track in tracks)
    if saved:
        remarks.append(Note(last, (), f"{saved} checkpoint{'s' if saved > 1 else ''} written"))
    return remarks


def _when(folder: Path) -> datetime:
    places = [folder / "config.json", folder / "result.json", *(folder / "events").glob("rank-*.jsonl")]
    return datetime.fromtimestamp(max(path.stat().st_mtime for path in places if path.exists()), UTC)
