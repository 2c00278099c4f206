"""What the lab's tests share: whether a lab can be built here, and short programs that run in its hosts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tightwire.lab import Lab, why_not
from tightwire.lab.names import NAMESPACES

_REASON = why_not()
needs_lab = [pytest.mark.lab, pytest.mark.skipif(_REASON is not None, reason=f"no lab here: {_REASON}")]

_TAKE = """
import json, socket, time
from tightwire.lab.counters import own_counters
with socket.create_server(("", 0)) as server:
    print(server.getsockname()[1], flush=True)
    peer, _ = server.accept()
    before = own_counters()
    print("connected", flush=True)
    got, began = len(peer.recv(1)), time.monotonic()
    while piece := peer.recv(1 << 20):
        got += len(piece)
    ended = time.monotonic()
    peer.close()
    rx = (own_counters() - before).rx_bytes
    print(json.dumps({"began": began, "ended": ended, "nbytes": got, "rx": rx}), flush=True)
"""
_GIVE = """
import os, socket, sys, time
address, port, nbytes, go = sys.argv[1:]
with socket.create_connection((address, int(port))) as peer:
    while not os.path.exists(go):
        time.sleep(0.001)
    peer.sendall(bytes(int(nbytes)))
"""


def transfer(lab: Lab, pairs: Sequence[tuple[int, int]], nbytes: int) -> list[dict[str, Any]]:
    """Send zeros between hosts by plain sockets, all pairs at the same time; each receiver tells what it saw."""
    with tempfile.TemporaryDirectory() as folder:
        go = Path(folder) / "go"
        takers = [lab.start(to, [sys.executable, "-c", _TAKE], stdout=subprocess.PIPE) for _, to in pairs]
        givers = []
        for (source, to), taker in zip(pairs, takers, strict=True):
            where = [lab.hosts[to].address, _line(taker), str(nbytes), str(go)]
            givers.append(lab.start(source, [sys.executable, "-c", _GIVE, *where]))
        assert [_line(taker) for taker in takers] == ["connected"] * len(takers)
        go.touch()
        told = [json.loads(taker.communicate(timeout=20)[0]) for taker in takers]
        assert [giver.wait(20) for giver in givers] == [0] * len(givers)
        return told


def _line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def say(lab: Lab, rank: int, program: str, **env: str) -> str:
    """What a Python program prints in a host."""
    process = lab.start(rank, [sys.executable, "-c", program], env, stdout=subprocess.PIPE)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 0, process.returncode
    return output.decode().strip()


def namespaces_of(pid: int) -> list[str]:
    """The namespaces of a process' labs."""
    if not NAMESPACES.is_dir():
        return []
    return sorted(entry.name for entry in NAMESPACES.iterdir() if entry.name.startswith(f"tw-{pid}-"))


def machine() -> tuple[list[str], str]:
    """The machine's own interfaces and queues, which no lab may change."""
    links = sorted(line.split()[0] for line in _ask("ip", "-br", "link").splitlines())
    return links, _ask("tc", "qdisc", "show")


def runs(pid: int) -> bool:
    """Whether a process runs; one that was killed and not waited for does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def lives_in(namespace: str, pid: int) -> bool:
    """Whether a process is in a namespace."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino == (NAMESPACES / namespace).stat().st_ino
    except FileNotFoundError:
        return False


def soon(condition: Callable[[], bool], within_s: float = 5.0) -> bool:
    """Whether it becomes true in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


class Elsewhere:
    """A process that opens a lab of two hosts, starts a sleeper in one, and sleeps itself."""

    PROGRAM = """
import signal, subprocess, sys, time
from tightwire.lab import Lab
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # so does what nohup starts
LONG = "import time; time.sleep(60)"
ESCAPE = "import os, time; os.fork() and os._exit(0); os.setsid(); print(os.getpid(), flush=True); time.sleep(60)"
with Lab(2, "1gbit", grace_s=2.0) as lab:
    direct = lab.start(0, [sys.executable, "-c", LONG])
    escaped = lab.start(1, [sys.executable, "-c", ESCAPE], stdout=subprocess.PIPE)
    print(direct.pid, escaped.stdout.readline().decode().strip(), flush=True)
    escaped.stdout.close()
    time.sleep(60)
"""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.PROGRAM], stdout=subprocess.PIPE, env=dict(os.environ)
        )
        assert self.process.stdout is not None
        self.child, self.escaped = (int(word) for word in self.process.stdout.readline().split())
        self.names = namespaces_of(self.process.pid)

    def __enter__(self) -> Elsewhere:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()
        with suppress(ProcessLookupError):
            os.kill(self.escaped, signal.SIGKILL)
        for name in namespaces_of(self.process.pid):  # only if the test failed before
            subprocess.run(["ip", "netns", "delete", name], check=False)


def _ask(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
