"""Processes in hosts: what they find, who they are, how they end."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.here import needs_lab, runs, say, soon
from tightwire.lab import Lab, LabError, run_everywhere
from tightwire.lab.hosts import courtesies

pytestmark = needs_lab
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(3, "1gbit", grace_s=2.0) as open_lab:
        yield open_lab


def test_torchruns_environment(lab: Lab) -> None:
    for rank in (0, 2):
        found = json.loads(
            say(lab, rank, "import json, os; print(json.dumps(dict(os.environ)))", MINE="x", RANK_NOTE="y")
        )
        expected = {
            "RANK": str(rank),
            "WORLD_SIZE": "3",
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": lab.hosts[0].address,
            "MASTER_PORT": "29500",
            "GLOO_SOCKET_IFNAME": "tw0",
            "TIGHTWIRE_HOST": f"h{rank}",
            "TIGHTWIRE_LAB": "1gbit",
            "MINE": "x",
            "PATH": os.environ["PATH"],
        }
        assert {name: found.get(name) for name in expected} == expected


def test_what_the_user_has_set_stays() -> None:
    assert courtesies(10**6, {}) == {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    assert courtesies(1, {"OMP_NUM_THREADS": "7", "TORCH_CPP_LOG_LEVEL": "INFO"}) == {}


def test_the_pid_is_the_process_itself_and_its_address_the_hosts(lab: Lab) -> None:
    program = "import os, socket; s = socket.create_server((os.environ['ME'], 0)); print(os.getpid()); s.close()"
    process = lab.start(1, [sys.executable, "-c", program], {"ME": lab.hosts[1].address}, stdout=subprocess.PIPE)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 0 and int(output) == process.pid


def test_a_process_outlives_the_thread_that_asked_for_it(lab: Lab) -> None:
    started: list[subprocess.Popen[bytes]] = []
    program = "import time; print('up', flush=True); time.sleep(60)"

    def ask() -> None:
        process = lab.start(0, [sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()  # from now on it would die with whoever started it
        started.append(process)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    with pytest.raises(subprocess.TimeoutExpired):
        started[0].wait(0.2)
    started[0].kill()
    started[0].communicate()


def test_every_line_is_behind_its_hosts_name(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    program = "import os, sys; print('a', os.environ['RANK']); print('b'); print('oops', file=sys.stderr)"
    assert run_everywhere(lab, [sys.executable, "-c", program], timeout_s=20) == 0
    said = capsys.readouterr()
    assert sorted(said.out.splitlines()) == sorted(f"[h{r}] {word}" for r in range(3) for word in (f"a {r}", "b"))
    assert sorted(said.err.splitlines()) == [f"[h{r}] oops" for r in range(3)]


@pytest.mark.parametrize(
    ("ending", "status", "says"), [("os._exit(3)", 3, "exit code 3"), ("os.kill(os.getpid(), 9)", 137, "signal 9")]
)
def test_the_first_failure_ends_all(
    lab: Lab, capfd: pytest.CaptureFixture[str], ending: str, status: int, says: str
) -> None:
    program = f"import os, time; print(os.getpid(), flush=True); os.environ['RANK'] == '1' and {ending}; time.sleep(60)"
    began = time.monotonic()
    assert run_everywhere(lab, [sys.executable, "-c", program], timeout_s=30) == status
    assert time.monotonic() - began < 10
    said = capfd.readouterr()
    assert "tightwire lab: h1" in said.err and says in said.err
    assert not any(runs(int(line.split()[1])) for line in said.out.splitlines())


def test_what_takes_too_long_is_ended(lab: Lab) -> None:
    with pytest.raises(LabError, match=r"within 0.2 s on hosts \[0, 1, 2\]"):
        run_everywhere(lab, SLEEP, timeout_s=0.2)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C works here, even where a shell has told its background jobs to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_is_passed_on(lab: Lab, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try: open(os.environ['DIR'] + '/up' + os.environ['RANK'], 'w').close(); time.sleep(60)\n"
        "except KeyboardInterrupt: print('saved', flush=True)\n"
    )

    def press() -> None:
        if soon(lambda: len(list(tmp_path.iterdir())) == 3, within_s=15):
            os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        run_everywhere(lab, [sys.executable, "-c", program], {"DIR": str(tmp_path)}, timeout_s=20)
    presser.join()
    assert sorted(capfd.readouterr().out.splitlines()) == [f"[h{rank}] saved" for rank in range(3)]


def test_mistakes_are_named(lab: Lab) -> None:
    with pytest.raises(LabError, match="no command 'no-such-command' to start on h0"):
        lab.start(0, ["no-such-command"])
    with pytest.raises(LabError, match="no command"):
        lab.start(0, [])
    with pytest.raises(LabError, match="no host 3: this lab has hosts 0 to 2"):
        lab.start(3, SLEEP)
    with pytest.raises(LabError, match="not open"):
        Lab(2, "1gbit").start(0, SLEEP)
    with pytest.raises(LabError, match="already open"):
        lab.__enter__()


def test_the_stubborn_are_killed() -> None:
    program = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    with Lab(1, "1gbit", grace_s=0.2) as lab:
        process = lab.start(0, [sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
    assert process.returncode == -9
    assert soon(lambda: not runs(process.pid))
    process.stdout.close()
