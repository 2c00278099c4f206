"""Many whole runs on the in-process link: each a process of its own with one thread, some at once.

    asked ─▶ its folder has a result of this very run? ─▶ yes: taken as it is
                                                       └▶ no: run; afterwards `finished` is called, which writes rows

A benchmark that is cut keeps the rows it has. With ``--work DIR`` results stay there: started again, it runs only what
is missing, and a run that was cut goes on from its last checkpoint (``--save-every``, or when the benchmark was ended
by a signal).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import write
from tightwire.engines.config import RunConfig, parse_recipe

_SAVING_S = 20.0  # how long runs that are asked to stop may take to save


@dataclass(frozen=True)
class Asked:
    """One run of a benchmark. ``name`` is the recipe as a person writes it, ``settings`` what else differs."""

    name: str
    seed: int
    settings: tuple[tuple[str, Any], ...] = ()

    def config(self, asked: argparse.Namespace, folder: Path) -> RunConfig:
        """The run, in a folder of its own."""
        recipe, params = parse_recipe(self.name)
        words = "".join(f",{key}={value}" for key, value in self.settings)
        common = {"data": asked.data, "data_folder": asked.data_folder, "model": asked.model, "epochs": asked.epochs,
                  "batch": asked.batch, "device": asked.device, "save_every": asked.save_every}  # fmt: skip
        own = {
            "recipe": recipe,
            "params": params,
            "seed": self.seed,
            "folder": str(folder / f"{self.name}{words}" / str(self.seed)),
        }
        return RunConfig(**{**common, **dict(self.settings), **own})


def arguments(text: str | None, *, epochs: float, batch: int = 64, seeds: int = 3) -> argparse.ArgumentParser:
    """What every such benchmark can be told."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--data-folder")
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--epochs", type=float, default=epochs)
    parser.add_argument("--batch", type=int, default=batch)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--save-every", type=int, default=10**6, help="steps between two checkpoints of a run")
    parser.add_argument("--work", help="a folder for the runs; those that are complete there are not run again")
    return parser


@contextlib.contextmanager
def folder_for(asked: argparse.Namespace) -> Iterator[Path]:
    """Where the runs are kept: the folder that was asked for, or one that goes away."""
    if asked.work is not None:
        yield Path(asked.work)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def result(config: RunConfig) -> dict[str, Any] | None:
    """What a run came to: its result, or ``{"error": …}``; None if it has not been run as it is asked for now."""
    try:
        found: dict[str, Any] = json.loads((config.path / "result.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found if is_of(config) else None


def is_of(config: RunConfig) -> bool:
    """Whether the folder of a run holds this very run, begun or done."""
    try:
        said = json.loads((config.path / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    now = json.loads(json.dumps(asdict(config)))
    elsewhere = ("folder", "data_folder", "save_every")
    return all(said.get(key) == value for key, value in now.items() if key not in elsewhere)


def run_all(configs: Sequence[RunConfig], asked: argparse.Namespace, finished: Callable[[], None]) -> None:
    """All runs that are not done, some at once; ``finished`` after each. What has not begun in time is left out."""
    until = time.monotonic() + 60 * asked.minutes
    waiting = [config for config in configs if result(config) is None]
    running: list[subprocess.Popen[bytes]] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no run outlives the benchmark
    try:
        while (waiting and time.monotonic() < until) or running:
            while waiting and len(running) < asked.at_once and time.monotonic() < until:
                running.append(_start(waiting.pop(0)))
            left = [process for process in running if process.poll() is None]
            if len(left) < len(running):
                finished()
            running = left
            time.sleep(0.2)
    finally:
        _end(running)


def _end(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask runs to save and stop; those that take too long are ended."""
    for process in running:
        process.send_signal(signal.SIGINT)
    until = time.monotonic() + _SAVING_S
    for process in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
        process.terminate()


def _start(config: RunConfig) -> subprocess.Popen[bytes]:
    if not is_of(config):
        shutil.rmtree(config.path, ignore_errors=True)
    plain = json.dumps({key: value for key, value in asdict(config).items() if value is not None})
    one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-m", "benchmarks.runs", plain], env={**os.environ, **one_thread})


def keep(name: str, figures: dict[str, Any], variant: str = "") -> Path:
    """Write what is known so far, without saying it."""
    with contextlib.redirect_stdout(io.StringIO()):
        return write(name, figures, variant)


def settings_of(asked: argparse.Namespace) -> dict[str, Any]:
    """What all runs of a benchmark have in common, and the command without the folders of this machine."""
    words = ["python", "-m", f"benchmarks.{Path(sys.argv[0]).stem}", *sys.argv[1:]]
    for option in ("--data-folder", "--work"):
        if option in words:
            words[words.index(option) + 1] = "DIR"
    common = {key: getattr(asked, key) for key in ("data", "model", "epochs", "batch", "device")}
    return {"command": " ".join(words), **common, "workers": 4}


def main(config: str) -> None:
    """One run, described by JSON, in this process. A run that breaks off leaves the reason as its result."""
    from tightwire.engines.inside import run_inside  # noqa: PLC0415 -- torch only in the process that trains
    from tightwire.engines.outcome import read_outcomes, stop_file  # noqa: PLC0415
    from tightwire.engines.start import RunFailed, RunStopped, judge, prepare  # noqa: PLC0415

    made = prepare(RunConfig(**json.loads(config)))
    stop_file(made.path).unlink(missing_ok=True)
    begin = time.process_time()
    run_inside(made, resume=True)
    try:
        figures = {**judge(made, read_outcomes(made.path)), "cpu_seconds": time.process_time() - begin}
    except RunStopped:
        return
    except RunFailed as error:
        figures = {"error": str(error)}
    partial = made.path / "result.json.partial"
    partial.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    partial.rename(made.path / "result.json")
    for name in ("checkpoints", "events"):
        shutil.rmtree(made.path / name, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
