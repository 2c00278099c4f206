"""Events as plain data, and where they go."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tightwire.telemetry.event import Event, Joined, Noted, Restored, Stepped
from tightwire.telemetry.sinks import JsonLines, Memory, Several, Silence
from tightwire.telemetry.tensorboard import TensorBoard


def note(text: str, rank: int = 0) -> Noted:
    return Noted(rank=rank, step=1, text=text)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_an_event_says_what_it_is() -> None:
    event = Stepped(rank=2, step=5, time_s=1.5, loss=0.25, tx_bytes=10, rx_bytes=20)
    assert event.as_dict() == {
        "event": "Stepped", "rank": 2, "step": 5, "time_s": 1.5, "loss": 0.25, "tx_bytes": 10, "rx_bytes": 20,
    }  # fmt: skip


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        note("a").text = "b"  # type: ignore[misc]


def test_events_of_a_worker_are_ordered_in_time() -> None:
    times = [note("a").time_s for _ in range(5)]
    assert times == sorted(times)
    assert times[0] > 0


def test_a_list_keeps_events_in_order() -> None:
    sink = Memory()
    events: list[Event] = [note("a"), Joined(rank=0, step=0, workers=4, recipe="r"), note("b")]
    for event in events:
        sink.take(event)
    sink.close()
    assert sink.events == events


def test_silence_takes_anything_and_keeps_nothing() -> None:
    sink = Silence()
    sink.take(note("a"))
    sink.close()
    assert vars(sink) == {}


def test_a_file_begins_with_the_first_event_in_folders_that_are_made(tmp_path: Path) -> None:
    sink = JsonLines(tmp_path / "runs" / "one" / "events.jsonl")
    assert list(tmp_path.iterdir()) == []
    sink.take(note("größer"))
    sink.close()
    (line,) = lines(sink.path)
    assert (line["event"], line["text"]) == ("Noted", "größer")


def test_every_event_is_a_line_at_once(tmp_path: Path) -> None:
    sink = JsonLines(tmp_path / "events.jsonl")
    for count, text in enumerate(("one", "two\nlines", "three"), start=1):
        sink.take(note(text))
        assert [line["text"] for line in lines(sink.path)][-1] == text
        assert len(lines(sink.path)) == count
    sink.close()


def test_a_second_run_appends(tmp_path: Path) -> None:
    for text in ("one", "two"):
        sink = JsonLines(tmp_path / "events.jsonl")
        sink.take(note(text))
        sink.close()
        sink.close()
    assert [line["text"] for line in lines(tmp_path / "events.jsonl")] == ["one", "two"]


def test_a_sink_without_events_leaves_no_file(tmp_path: Path) -> None:
    JsonLines(tmp_path / "events.jsonl").close()
    assert list(tmp_path.iterdir()) == []


def test_lines_of_several_threads_stay_whole(tmp_path: Path) -> None:
    sink = JsonLines(tmp_path / "events.jsonl")

    def write(rank: int) -> None:
        for step in range(100):
            sink.take(note("x" * step, rank))

    threads = [Thread(target=write, args=(rank,)) for rank in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sink.close()
    for rank in range(4):
        assert [len(line["text"]) for line in lines(sink.path) if line["rank"] == rank] == list(range(100))


def test_tuples_become_lists(tmp_path: Path) -> None:
    sink = JsonLines(tmp_path / "events.jsonl")
    sink.take(Restored(rank=0, step=3, folder="f", changes=("a", "b")))
    sink.close()
    assert lines(sink.path)[0]["changes"] == ["a", "b"]


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_still_json(tmp_path: Path, loss: float) -> None:
    sink = JsonLines(tmp_path / "events.jsonl")
    sink.take(Stepped(rank=0, step=0, loss=loss, tx_bytes=0, rx_bytes=0))
    sink.close()
    json.loads(sink.path.read_text(), parse_constant=pytest.fail)


def test_several_sinks_hear_the_same(tmp_path: Path) -> None:
    ear, file = Memory(), JsonLines(tmp_path / "events.jsonl")
    sink = Several(ear, file)
    sink.take(note("a"))
    sink.take(note("b"))
    sink.close()
    assert [line["text"] for line in lines(file.path)] == [event.as_dict()["text"] for event in ear.events]


def test_tensorboard_shows_loss_and_bytes(tmp_path: Path) -> None:
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    sink = TensorBoard(tmp_path)
    sink.take(note("no scalar"))
    assert list(tmp_path.iterdir()) == []
    for step in range(3):
        sink.take(Stepped(rank=0, step=step, loss=3.0 - step, tx_bytes=step, rx_bytes=2 * step))
    sink.close()
    found = reading.EventAccumulator(str(tmp_path))
    found.Reload()
    assert [(scalar.step, scalar.value) for scalar in found.Scalars("loss")] == [(0, 3.0), (1, 2.0), (2, 1.0)]
    assert [scalar.value for scalar in found.Scalars("wire/rx_bytes")] == [0.0, 2.0, 4.0]
