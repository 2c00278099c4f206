"""The command line: fast help, one sentence for what a person can cause, JSON where it was asked for."""

import gzip
import json
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tightwire.cli.app import main
from tightwire.links.certificates import Signed, issue
from tightwire.recipes.catalogue import CATALOGUE

SCRIPT = Path(sys.executable).parent / "tightwire"


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run a command in this process; its exit status."""
    monkeypatch.setattr(sys, "argv", ["tightwire", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def shell(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command as a person does."""
    return subprocess.run(
        [SCRIPT, *arguments], capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **(env or {})}
    )


@pytest.mark.processes  # timed: alone on the machine
def test_help_is_fast_and_imports_nothing_heavy() -> None:
    probe = (
        "import sys, runpy; sys.argv = ['tightwire', '--help']\n"
        "try: runpy.run_module('tightwire', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'numba', 'numpy', 'plotly', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        assert shell("--help").returncode == 0
        times.append(time.perf_counter() - begin)
    assert min(times) < 0.5


@pytest.mark.parametrize(
    "command",
    [
        "recipes",
        "plan",
        "train",
        "compare",
        "report",
        "resume",
        "server",
        "keys",
        "lab",
        "chaos",
        "search",
        "bench",
        "doctor",
    ],
)
def test_every_command_teaches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert call(monkeypatch, command, "--help") == 0
    assert len(capsys.readouterr().out.splitlines()) > 8


def test_recipes_lists_all_of_them(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "recipes") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in CATALOGUE)


@pytest.mark.parametrize("name", CATALOGUE)
def test_recipes_shows_one_in_full(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert call(monkeypatch, "recipes", name, "--json", "-") == 0
    shown = json.loads(capsys.readouterr().out)["recipes"][0]
    assert shown["name"] == name and shown["paper"]["title"] and shown["laws"]
    assert call(monkeypatch, "recipes", name) == 0
    assert "schedule" in capsys.readouterr().out


def test_doctor_says_what_works(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "doctor", "--json", "-") == 0
    findings = {f["what"]: f for f in json.loads(capsys.readouterr().out)["findings"]}
    assert findings["torch"]["works"] and findings["lab"]["text"]


def bad_idx(folder: Path) -> Path:
    folder.mkdir()
    for name, kind in (
        ("train-images-idx3", 3),
        ("train-labels-idx1", 1),
        ("t10k-images-idx3", 3),
        ("t10k-labels-idx1", 1),
    ):
        head = struct.pack(">I", 0x800 | kind) + struct.pack(f">{kind}I", *([1000] * kind))
        (folder / f"{name}-ubyte.gz").write_bytes(gzip.compress(head + b"short"))
    return folder


MISTAKES: dict[str, tuple[list[str], str]] = {
    "unknown recipe": (["train", "--recipe", "dgcc"], "did you mean dgc"),
    "unknown parameter": (["train", "--recipe", "dgc:tau=3"], "its parameters are"),
    "illegal value": (["train", "--recipe", "dgc:density=2"], "density"),
    "a part that is no word": (["train", "--recipe", "lars:exchange=circle"], "halving-doubling"),
    "a part only scripts can make": (["train", "--recipe", "diloco:codec=zip"], "codec=zip"),
    "a word for a number": (["train", "--recipe", "local-sgd:tau=often"], "give a number"),
    "a grid that is none": (["train", "--recipe", "ddl:dims=2by2"], "2x4"),
    "unknown data": (["train", "--data", "imagenet"], "imagenet"),
    "unknown model": (["train", "--model", "alex"], "alex"),
    "missing data folder": (["train", "--data", "mnist", "--data-folder", "/nowhere"], "/nowhere"),
    "zero workers": (["train", "--workers", "0"], "workers=0"),
    "negative epochs": (["train", "--epochs", "-1"], "epochs=-1.0"),
    "a rate that is none": (["train", "--lab", "fast"], "fast"),
    "a user-space rate that is none": (["train", "--link", "fast"], "fast"),
    "not a run": (["resume", "/nowhere"], "not a run"),
    "a report of nothing": (["report", "/nowhere"], "/nowhere"),
    "a function that is not there": (["train", "--model", "nowhere:net"], "nowhere"),
    "an image model on flat data": (["train", "--model", "lenet-5", "--data", "speech"], "speech"),
    "an unknown recipe to compare": (["compare", "--recipes", "sync-sgd,nonsense"], "nonsense"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_with_status_2(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path, mistake: str
) -> None:
    arguments, says = MISTAKES[mistake]
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *arguments) == 2
    said = capfd.readouterr().err
    assert says in said
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) == 1, said


@pytest.mark.processes
def test_an_illegal_mixture_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "train", "--recipe", "dgc", "--momentum", "0.9", "--epochs", "1") == 2
    said = capfd.readouterr().err
    assert "momentum of 0.9 would repeat" in said and "Traceback" not in said


def test_a_damaged_data_file_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = str(bad_idx(tmp_path / "data"))
    assert call(monkeypatch, "train", "--data", "mnist", "--data-folder", folder, "--model", "lenet-300-100") == 2
    said = capfd.readouterr().err
    assert "ubyte" in said and "Traceback" not in said


def torchrun_environment(rank: int, address: str, port: int) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": address, "MASTER_PORT": str(port)}


def test_an_unreachable_master_is_one_sentence(tmp_path: Path) -> None:
    env = torchrun_environment(1, "127.0.0.1", 9)
    done = shell("train", "--timeout", "2", "--out", str(tmp_path / "x"), env=env)
    assert done.returncode == 2
    assert "could not meet the others at 127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        env = torchrun_environment(0, "127.0.0.1", port)
        done = shell("train", "--timeout", "2", "--out", str(tmp_path / "x"), env=env)
    assert done.returncode == 2
    assert f"127.0.0.1:{port} is in use" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.processes
def test_train_prints_a_sentence_and_one_json_object(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "train", "--recipe", "local-sgd:tau=4", "--epochs", "2", "--json", "-") == 0
    heard = capfd.readouterr()
    result: dict[str, Any] = json.loads(heard.out)
    assert result["recipe"] == "local-sgd" and result["params"] == {"tau": 4}
    assert "local-sgd:tau=4 × 4" in heard.err.replace("\n", " ")
    assert (tmp_path / "runs/local-sgd/result.json").exists()
    assert call(monkeypatch, "resume", "runs/local-sgd", "--epochs", "3", "--json", "more.json") == 0
    assert json.loads((tmp_path / "more.json").read_text())["epochs"] == 3.0


@pytest.mark.processes
def test_a_run_that_diverges_says_so_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    wild = ["--workers", "2", "--epochs", "2", "--lr", "1e25", "--json", "-"]
    assert call(monkeypatch, "train", *wild, "--out", "run") == 2
    heard = capfd.readouterr()
    assert (
        json.loads(heard.out)["diverged"] is True
        and "after 10 steps its answer is not finite; lower --lr (it was 1e+25)" in heard.err
        and "Traceback" not in heard.err
    )
    assert call(monkeypatch, "compare", *wild, "--recipes", "sync-sgd", "--no-alone") == 0
    heard = capfd.readouterr()
    assert json.loads(heard.out)["rows"][0]["diverged"] is True and "× 2: diverged" in heard.err


@pytest.mark.processes
def test_a_checkpoint_of_another_model_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "train", "--epochs", "1", "--out", "run") == 0
    config = json.loads(Path("run/config.json").read_text())
    Path("run/config.json").write_text(json.dumps({**config, "model": "lenet-300-100"}))
    capfd.readouterr()
    assert call(monkeypatch, "resume", "run") == 2
    said = capfd.readouterr().err
    assert "another model" in said and "Traceback" not in said


@pytest.mark.processes
def test_shaping_in_user_space_slows_the_run_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, link in (("fast", []), ("slow", ["--link", "20mbit"])):
        arguments = ["train", "--workers", "2", "--steps", "20", "--out", name, "--json", f"{name}.json", *link]
        assert call(monkeypatch, *arguments) == 0
    fast, slow = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("fast", "slow"))
    assert "user space" in slow["wire"]["link"]
    assert slow["test_accuracy"] == pytest.approx(fast["test_accuracy"], abs=0.02)
    on_the_wire = 20 * 4 * 17_226 * 8 / 20e6
    assert slow["seconds"] > 0.9 * on_the_wire


@pytest.mark.processes
def test_compare_prints_a_table_and_writes_a_report(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    recipes = "sync-sgd,dgc:density=0.05"
    assert call(monkeypatch, "compare", "--recipes", recipes, "--epochs", "2", "--json", "c.json") == 0
    rows = json.loads((tmp_path / "c.json").read_text())["rows"]
    assert [(row["recipe"], row["workers"]) for row in rows] == [("sync-sgd", 1), ("sync-sgd", 4), ("dgc", 4)]
    assert len({round(row["epochs"], 6) for row in rows}) == 1, "every run sees the same samples"
    out = capfd.readouterr().out
    assert "speed-up" in out and "density=0.05" in out
    assert (tmp_path / "runs/compare/report.html").stat().st_size > 100_000


def test_keys_are_made_and_a_server_without_them_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert call(monkeypatch, "keys", str(tmp_path), "--run", "mnist", "--hosts", "node7,10.0.0.7", "--json", "-") == 0
    made = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {Path(name).name for name in made["made"]} >= {"ca.pem", "server.pem", "tokens", "mnist.token"}
    assert call(monkeypatch, "server", "--listen", "grpc+tls://0.0.0.0:0") == 2
    assert "tightwire keys makes one; or give --insecure" in capsys.readouterr().err
    late = ["--cert", str(tmp_path / "late.pem"), "--key", str(tmp_path / "server-key.pem")]
    authority = Signed((tmp_path / "ca.pem").read_bytes(), (tmp_path / "ca-key.pem").read_bytes())
    (tmp_path / "late.pem").write_bytes(issue(authority, "server", ["node7"], -1.0).certificate)
    assert call(monkeypatch, "server", "--listen", "grpc+tls://0.0.0.0:0", "--token-file", made["made"][6], *late) == 2
    assert "ended on" in capsys.readouterr().err
