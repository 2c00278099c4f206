"""Reading runs: whole ones, restarted ones, cut-off ones, and folders that are no runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra.errors import TightwireError
from tightwire.telemetry.event import Joined, Noted, Restored, Saved, Skipped, Stepped, Switched
from tightwire.telemetry.report import ReportError, RunRecord, read_run
from tightwire.telemetry.report.curve import merge, smooth, thin
from tightwire.telemetry.report.events import Point, Track, read_track
from tightwire.telemetry.sinks import JsonLines

CONFIG = {"recipe": "sync-sgd", "params": {}, "workers": 2, "data": "digits", "model": "mlp", "batch": 16,
          "shards": "shuffled", "seed": 0, "lab": None, "lr": None}  # fmt: skip
WIRE = {"payload_ratio": 4.0, "tx_bytes": 1000.0, "rx_bytes": 900.0, "measured_tx_bytes": None,
        "measured_rx_bytes": None, "link": "in-process"}  # fmt: skip
RESULT = {"seconds": 2.0, "samples_per_second": 320.0, "test_accuracy": 0.9, "wire": WIRE, "staleness": None,
          "faults": {"restarts": 0}}  # fmt: skip


def write_run(
    folder: Path,
    *,
    config: dict[str, Any] | None = None,
    result: dict[str, Any] | None = None,
    losses: Sequence[float | None] = (2.0, 1.0, 0.5),
    nbytes: int = 100,
) -> Path:
    """A run of our own making; `result` is merged into a usual one, and no result is left if it says None itself."""
    folder.mkdir(parents=True, exist_ok=True)
    asked = {**CONFIG, **(config or {})}
    (folder / "config.json").write_text(json.dumps(asked), encoding="utf-8")
    for rank in range(asked["workers"]):
        sink = events(folder, rank)
        sink.take(Joined(rank=rank, step=0, time_s=100.0, workers=asked["workers"], recipe="sync-sgd(codec=Dense())"))
        for step, loss in enumerate(losses):
            sink.take(stepped(rank, step, 100.5 + step / 10, loss=loss, nbytes=nbytes * (step + 1)))
        sink.close()
    if result != {}:
        (folder / "result.json").write_text(json.dumps({**RESULT, **(result or {})}), encoding="utf-8")
    return folder


def events(folder: Path, rank: int = 0) -> JsonLines:
    return JsonLines(folder / "events" / f"rank-{rank}.jsonl")


def stepped(rank: int, step: int, time_s: float, *, loss: float | None = 1.0, nbytes: int = 0) -> Stepped:
    return Stepped(rank=rank, step=step, time_s=time_s, loss=loss, tx_bytes=nbytes, rx_bytes=nbytes // 2)


def joined(time_s: float, step: int = 0) -> Joined:
    return Joined(rank=0, step=step, time_s=time_s, workers=1, recipe="sync-sgd(…)")


def alone(tmp_path: Path, *told: Any) -> RunRecord:
    """A run of one worker that told these events, and has no result."""
    folder = write_run(tmp_path / "run", config={"workers": 1}, result={}, losses=())
    (folder / "events" / "rank-0.jsonl").unlink()
    sink = events(folder)
    for event in told:
        sink.take(event)
    sink.close()
    return read_run(folder)


def test_a_run_is_read(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "one"))
    assert (run.name, run.workers, run.state) == ("sync-sgd", 2, "done")
    assert run.composition == "sync-sgd(codec=Dense())"
    assert run.curve.steps == (1, 2, 3)
    assert run.curve.seconds == pytest.approx((0.5, 0.6, 0.7))
    assert (run.curve.tx_bytes, run.curve.rx_bytes) == ((100, 200, 300), (50, 100, 150))
    assert run.curve.loss == (2.0, 1.0, 0.5)
    figures = run.figures
    assert (figures.accuracy, figures.perplexity, figures.seconds, figures.payload_ratio) == (0.9, None, 2.0, 4.0)
    assert (figures.tx_bytes, figures.link, figures.restarts, figures.staleness_mean) == (1000, "in-process", 0, None)


def test_a_record_cannot_be_changed(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "one"))
    with pytest.raises(FrozenInstanceError):
        run.state = "failed"  # type: ignore[misc]


def test_the_name_is_what_one_types(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "one", config={"recipe": "dgc", "params": {"density": 0.01, "masking": "off"}}))
    assert run.name == "dgc:density=0.01:masking=off"


def test_measured_over_ledger_takes_both_directions(tmp_path: Path) -> None:
    wire = {**WIRE, "measured_tx_bytes": 1100.0, "measured_rx_bytes": 990.0}
    assert read_run(write_run(tmp_path / "lab", result={"wire": wire})).figures.measured_over_ledger == 1.1
    assert read_run(write_run(tmp_path / "none")).figures.measured_over_ledger is None
    nothing = {**wire, "tx_bytes": 0.0, "rx_bytes": 0.0}
    assert read_run(write_run(tmp_path / "alone", result={"wire": nothing})).figures.measured_over_ledger is None


def test_staleness_and_its_histogram(tmp_path: Path) -> None:
    stale = {"mean": 1.5, "max": 3, "histogram": {"10": 1, "2": 5}}
    figures = read_run(write_run(tmp_path / "one", result={"staleness": stale})).figures
    assert (figures.staleness_mean, figures.staleness_max) == (1.5, 3)
    assert list(figures.staleness_counts.items()) == [(2, 5.0), (10, 1.0)]


# ── restarts ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_steps_taken_again_replace_those_before_and_the_clock_goes_on(tmp_path: Path) -> None:
    first = [joined(100.0), *(stepped(0, n, 101.0 + n, loss=9.0, nbytes=10 * (n + 1)) for n in range(6))]
    again = [joined(7.0, step=3), *(stepped(0, n, 8.0 + n - 3, loss=1.0, nbytes=10 * (n + 1)) for n in range(3, 8))]
    run = alone(tmp_path, *first, *again)
    assert run.curve.steps == (1, 2, 3, 4, 5, 6, 7, 8)
    assert run.curve.loss == (9, 9, 9, 1, 1, 1, 1, 1)
    assert run.curve.seconds == (1, 2, 3, 7, 8, 9, 10, 11)  # the first process ended at 6, the second goes on there
    assert run.curve.tx_bytes == (10, 20, 30, 40, 50, 60, 70, 80)
    assert run.figures.restarts == 1


def test_a_restart_in_progress_has_undone_the_later_steps(tmp_path: Path) -> None:
    run = alone(tmp_path, joined(0.0), *(stepped(0, n, 1.0 + n) for n in range(9)), joined(50.0), stepped(0, 2, 51.0))
    assert run.curve.steps == (1, 2, 3)
    assert run.curve.seconds == (1, 2, 10)


def test_the_pause_between_two_processes_does_not_count(tmp_path: Path) -> None:
    run = alone(tmp_path, joined(0.0), stepped(0, 0, 1.0), joined(90_000.0, step=1), stepped(0, 1, 90_001.0))
    assert run.curve.seconds == (1, 2)


def test_lines_of_two_threads_may_change_places(tmp_path: Path) -> None:
    run = alone(tmp_path, joined(10.0), stepped(0, 0, 11.0), stepped(0, 1, 10.999), stepped(0, 2, 12.0))
    assert run.curve.seconds == (1.0, 1.0, 2.0)
    assert run.figures.restarts == 0


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.integers(0, 30), st.lists(st.floats(0, 5), min_size=1, max_size=12)),
        min_size=1, max_size=5,
    )
)  # fmt: skip
def test_clocks_and_bytes_never_go_back(tmp_path_factory: pytest.TempPathFactory, processes: list[Any]) -> None:
    path = tmp_path_factory.mktemp("events") / "rank-0.jsonl"
    sink = JsonLines(path)
    for began, first, pauses in processes:
        sink.take(joined(began, step=first))
        now = began
        for step, pause in enumerate(pauses, start=first):
            now += pause
            sink.take(stepped(0, step, now, nbytes=7 * (step + 1)))
    sink.close()
    track = read_track(path, 0)
    curve = merge([track])
    assert track.processes == len(processes)
    assert curve.steps[-1] == processes[-1][1] + len(processes[-1][2])
    for column in (curve.steps, curve.seconds, curve.tx_bytes, curve.rx_bytes):
        assert list(column) == sorted(column)
    assert (
        curve.seconds[-1] <= sum(sum(pauses) for _, _, pauses in processes) + 1e-6 * max(p[0] for p in processes) + 1e-6
    )


# ── what is cut off, missing or damaged ───────────────────────────────────────────────────────────────────────────


def add(folder: Path, text: str) -> None:
    with (folder / "events" / "rank-0.jsonl").open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.mark.parametrize("kept", [1, 9, 25, 60, -1])
def test_a_cut_off_last_line_is_skipped(tmp_path: Path, kept: int) -> None:
    folder = write_run(tmp_path / "one", config={"workers": 1})
    line = json.dumps(stepped(0, 3, 101.0).as_dict(), separators=(",", ":"))
    add(folder, line[:kept])
    assert read_run(folder).curve.steps == (1, 2, 3)


def test_half_a_line_before_a_restart_is_cut_off(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "one", config={"workers": 1})
    add(folder, '{"event":"Stepped","rank":0,"st')
    sink = events(folder)
    sink.take(joined(5.0, step=3))
    sink.take(stepped(0, 3, 6.0))
    sink.close()
    assert read_run(folder).curve.seconds == pytest.approx((0.5, 0.6, 0.7, 1.7))


@pytest.mark.parametrize(
    "line", ["garbage", "[1]", '{"event":"Stepped"}', '{"event":"Stepped","rank":0,"step":3,"time_s":"noon"}',
             '{"event":"Stepped","rank":0,"step":3,"time_s":NaN,"loss":1,"tx_bytes":1,"rx_bytes":1}'],
)  # fmt: skip
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    folder = write_run(tmp_path / "one", config={"workers": 1})
    add(folder, line + "\n")
    with pytest.raises(ReportError, match=r"rank-0\.jsonl is damaged: line 5 is not an event; remove that line"):
        read_run(folder)


def test_a_loss_that_was_not_finite_is_a_gap_and_a_note(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "one", losses=(2.0, float("nan"), float("inf"), 1.0)))
    assert run.curve.loss == (2.0, None, None, 1.0)
    assert [note.text for note in run.notes] == ["no finite loss in 2 of 4 steps"]


def test_a_run_that_diverged_has_no_accuracy_but_a_note(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "one", result={"diverged": True}))
    assert run.figures.accuracy is None and [note.text for note in run.notes] == ["diverged: the answer is not finite"]


def test_a_run_in_progress_is_shown_as_far_as_it_came(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "one", result={}))
    assert run.state == "unfinished"
    assert (run.figures.accuracy, run.figures.payload_ratio) == (None, None)
    assert run.figures.seconds == pytest.approx(0.7)
    assert run.figures.tx_bytes == 300
    assert run.figures.samples_per_second == pytest.approx(3 * 16 * 2 / 0.7)


@pytest.mark.parametrize(("ended", "state"), [("stopped", "stopped"), ("error", "failed"), ("done", "unfinished")])
def test_how_a_run_without_a_result_ended(tmp_path: Path, ended: str, state: str) -> None:
    folder = write_run(tmp_path / "one", result={})
    (folder / "outcome").mkdir()
    (folder / "outcome" / "rank-1.json").write_text(json.dumps({"ended": ended, "step": 7, "text": "rank 0 is gone"}))
    run = read_run(folder)
    assert run.state == state
    assert [note.text for note in run.notes] == (["ended with an error: rank 0 is gone"] if ended == "error" else [])


def test_folders_that_are_no_runs(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="nowhere is not a run: there is no such folder; name one that"):
        read_run(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReportError, match=r"empty is not a run: it has no config\.json; name a folder that"):
        read_run(tmp_path / "empty")
    assert issubclass(ReportError, TightwireError)


def test_a_run_before_its_first_step(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="early has no events yet; wait for its first step, or leave it out"):
        read_run(write_run(tmp_path / "early", losses=()))


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"recipe": "sync-sgd"}', '{"recipe": 3, "workers": 2}', '{"recipe": "a", "workers": true}',
     '{"recipe": "a", "workers": 1, "params": 3}'],
)  # fmt: skip
def test_a_damaged_configuration(tmp_path: Path, text: str) -> None:
    folder = write_run(tmp_path / "one")
    (folder / "config.json").write_text(text)
    with pytest.raises(ReportError, match=r"config\.json is damaged.*; restore it, or leave out the run"):
        read_run(folder)


@pytest.mark.parametrize("result", [{"seconds": "long"}, {"wire": 3}, {"staleness": {"mean": []}},
                                    {"faults": {"restarts": True}},
                                    {"staleness": {"histogram": {"old": 1}}}])  # fmt: skip
def test_a_damaged_result(tmp_path: Path, result: dict[str, Any]) -> None:
    with pytest.raises(ReportError, match=r"result\.json is damaged: .* leave out the run"):
        read_run(write_run(tmp_path / "one", result=result))


def test_every_error_is_one_sentence(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "one")
    (folder / "result.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ReportError) as caught:
        read_run(folder)
    assert "\n" not in str(caught.value)


# ── notes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_notes_say_who_and_when_and_are_told_once(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "one")
    for rank in (0, 1):
        sink = events(folder, rank)
        sink.take(Noted(rank=rank, step=2, time_s=102.0, text="overlap is lost"))
        sink.take(Saved(rank=rank, step=2, time_s=102.0, folder="f"))
        sink.close()
    sink = events(folder, 1)
    sink.take(Switched(rank=1, step=1, time_s=102.1, recipe="local-sgd(local=Yours())"))
    sink.take(Skipped(rank=1, step=1, time_s=102.2, reason="infinite gradient"))
    sink.take(Restored(rank=1, step=0, time_s=102.3, folder="f", changes=("2 workers became 3",)))
    sink.close()
    told = [(note.steps, note.ranks, note.text) for note in read_run(folder).notes]
    assert told == [
        (0, (1,), "went on from the checkpoint of step 0; 2 workers became 3"),
        (1, (1,), "a new phase began: local-sgd"),
        (1, (1,), "step skipped: infinite gradient"),
        (2, (0, 1), "overlap is lost"),
        (3, (), "1 checkpoint written"),
    ]


# ── merging, smoothing, thinning ──────────────────────────────────────────────────────────────────────────────────


def test_a_step_is_over_when_the_last_worker_took_it() -> None:
    fast = Track(0, points=[Point(1, 1.0, 10, 0, 1.0), Point(2, 2.0, 20, 0, None)])
    slow = Track(1, points=[Point(1, 3.0, 30, 0, 3.0), Point(2, 4.0, 40, 0, 5.0)])
    curve = merge([fast, slow])
    assert curve.seconds == (3, 4)
    assert curve.tx_bytes == (20, 30)
    assert curve.loss == (2.0, 5.0)


def test_a_smaller_world_does_not_turn_back_the_clock() -> None:
    stays = Track(0, points=[Point(n, float(n), n, n, 1.0) for n in range(1, 6)])
    leaves = Track(1, points=[Point(n, 3.0 * n, 9 * n, n, 1.0) for n in range(1, 3)])
    curve = merge([stays, leaves])
    assert curve.seconds == (3, 6, 6, 6, 6)
    assert curve.tx_bytes == (5, 10, 10, 10, 10)


VALUES = st.lists(st.one_of(st.none(), st.floats(-100, 100)), max_size=300)


@given(VALUES, st.integers(1, 50))
def test_smoothing_stays_between_the_values(values: list[float | None], part: int) -> None:
    even = smooth(values, part=part)
    known = [value for value in values if value is not None]
    assert len(even) == len(values)
    assert all(min(known) - 1e-9 <= value <= max(known) + 1e-9 for value in even if value is not None)
    assert all(even[at] is not None for at, value in enumerate(values) if value is not None)


@given(VALUES, st.integers(6, 60))
def test_thinning_keeps_ends_and_extremes(values: list[float | None], points: int) -> None:
    kept = thin(values, points=points)
    assert len(kept) <= points
    assert kept == sorted(set(kept))
    known = [value for value in values if value is not None]
    if values:
        assert (kept[0], kept[-1]) == (0, len(values) - 1)
    if known:
        drawn = [value for at in kept if (value := values[at]) is not None]
        assert (min(drawn), max(drawn)) == (min(known), max(known))
