"""Watching a run by the files its workers write."""

from pathlib import Path

from tightwire.telemetry.event import Joined, Noted, Stepped
from tightwire.telemetry.follow import Follower
from tightwire.telemetry.sinks import JsonLines


def step(rank: int, number: int, seconds: float, loss: float | None = 1.0) -> Stepped:
    return Stepped(rank=rank, step=number, time_s=seconds, loss=loss, tx_bytes=100 * (number + 1), rx_bytes=0)


def test_it_sees_what_is_new_and_names_the_slowest(tmp_path: Path) -> None:
    sinks = [JsonLines(tmp_path / "events" / f"rank-{rank}.jsonl") for rank in range(2)]
    follower = Follower(tmp_path)
    follower.poll()
    assert follower.step == 0 and follower.loss is None and follower.slowest() is None
    for rank, sink in enumerate(sinks):
        for number in range(5):
            sink.take(step(rank, number, 10 + number * (1 + rank), loss=2.0 - rank))
    follower.poll()
    assert follower.step == 5
    assert follower.loss == 1.5, "the mean over workers"
    assert follower.slowest() == (1, 2.0)
    sinks[0].take(step(0, 5, 20, loss=None))
    sinks[0].take(Noted(rank=0, step=6, text="hello"))
    follower.poll()
    assert follower.workers[0].loss == 2.0, "the last loss anybody told"
    assert follower.workers[0].notes == ["hello"]
    follower.close()
    for sink in sinks:
        sink.close()


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "events" / "rank-0.jsonl"
    path.parent.mkdir()
    follower = Follower(tmp_path)
    with path.open("w", buffering=1) as file:
        file.write('{"event": "Stepped", "rank": 0, "step": 3, "time_s": 1.0,')
        file.flush()
        follower.poll()
        assert follower.step == 0
        file.write('"loss": 0.5, "tx_bytes": 7, "rx_bytes": 7}\n')
        follower.poll()
        assert follower.step == 4 and follower.workers[0].tx_bytes == 7
    follower.close()


def test_a_restart_is_not_a_slow_step(tmp_path: Path) -> None:
    sink = JsonLines(tmp_path / "events" / "rank-0.jsonl")
    for number in range(3):
        sink.take(step(0, number, 10 + number))
    sink.take(Joined(rank=0, step=3, time_s=42, workers=1, recipe="r"))
    for number in range(3, 5):
        sink.take(step(0, number, 40 + number))
    sink.close()
    follower = Follower(tmp_path)
    follower.poll()
    assert follower.workers[0].step_s == 1.0
    follower.close()
