"""A host of the lab: what a process in it finds in its environment; one command on every host.

torchrun's variables are set for one process a host, so a script that runs under torchrun runs here unchanged.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Protocol

from tightwire.lab.counters import INTERFACE, LAB_VARIABLE
from tightwire.lab.errors import LabError
from tightwire.lab.processes import NAMESPACE_VARIABLE, end
from tightwire.lab.rate import LinkRate

if TYPE_CHECKING:
    from tightwire.lab.namespaces import Lab

MASTER_PORT = 29500
"""Torchrun's. In a host of its own nobody else can hold it."""

_POLL_S = 0.02
_LAST_WORDS_S = 1.0  # how long a pipe may stay open after its process ended


@dataclass(frozen=True)
class Host:
    """One host."""

    rank: int
    name: str
    namespace: str
    address: str


def environment(host: Host, hosts: Sequence[Host], rate: LinkRate, port: int = MASTER_PORT) -> dict[str, str]:
    """What a process finds in a host: torchrun's variables, and who it is in the lab."""
    return {
        "RANK": str(host.rank),
        "GROUP_RANK": str(host.rank),
        "WORLD_SIZE": str(len(hosts)),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": hosts[0].address,
        "MASTER_PORT": str(port),
        "TIGHTWIRE_HOST": host.name,
        "TIGHTWIRE_ADDRESS": host.address,  # for torchrun --local-addr: a machine's name does not lead into the lab
        "TIGHTWIRE_KEYS": "throw-away",  # nobody else reaches the rendezvous that hands them out
        LAB_VARIABLE: str(rate),
        NAMESPACE_VARIABLE: host.namespace,
        "GLOO_SOCKET_IFNAME": INTERFACE,
        "NCCL_SOCKET_IFNAME": INTERFACE,
        "NCCL_HOSTID": host.namespace,  # otherwise NCCL sees one machine, and takes shared memory instead of the link
        "NCCL_IB_DISABLE": "1",
    }


def courtesies(hosts: int, already: Mapping[str, str]) -> dict[str, str]:
    """Variables that spare the user trouble, unless they are set: hosts share this machine's cores, and torch would
    warn in every process that there is no name server.
    """
    threads = max(1, len(os.sched_getaffinity(0)) // hosts)
    wanted = {"OMP_NUM_THREADS": str(threads), "TORCH_CPP_LOG_LEVEL": "ERROR"}
    return {name: value for name, value in wanted.items() if name not in already}


def run_everywhere(
    lab: Lab, command: Sequence[str], env: Mapping[str, str] | None = None, *, timeout_s: float | None = None
) -> int:
    """Run the same command on every host; return 0, or the exit code of the first that failed.

    Every line of output is printed behind its host's name. When one fails, the others are ended. A process killed by
    signal n counts as 128 + n, as in a shell. Ctrl-C is passed on, so that a run can save what it has.
    """
    processes: list[subprocess.Popen[bytes]] = []
    with _printing() as pump:
        try:
            for host in lab.hosts:
                process = lab.start(host.rank, command, env or {}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                processes.append(process)
                pump(host.name, process)
            failed = _first_failure(processes, timeout_s)
        except BaseException as error:
            asked = signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM
            end(processes, grace_s=lab.grace_s, first=asked)
            raise
        end(processes, grace_s=lab.grace_s)
    if failed is None:
        return 0
    code = processes[failed].returncode
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    print(f"tightwire lab: {lab.hosts[failed].name} {how}; the others were stopped", file=sys.stderr, flush=True)
    return 128 - code if code < 0 else code


def _first_failure(processes: Sequence[subprocess.Popen[bytes]], timeout_s: float | None) -> int | None:
    """Wait until one fails, or all have ended well."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        codes = [process.poll() for process in processes]
        for rank, code in enumerate(codes):
            if code:
                return rank
        if None not in codes:
            return None
        if deadline is not None and time.monotonic() > deadline:
            late = [rank for rank, code in enumerate(codes) if code is None]
            raise LabError(f"the command did not end within {timeout_s:g} s on hosts {late}")
        time.sleep(_POLL_S)


class _Pump(Protocol):
    def __call__(self, name: str, process: subprocess.Popen[bytes]) -> None: ...


@contextmanager
def _printing() -> Iterator[_Pump]:
    """Print what processes say, line by line, until the last of them is silent."""
    threads: list[threading.Thread] = []

    def pump(name: str, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None and process.stderr is not None
        for pipe, out in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            thread = threading.Thread(target=_copy, args=(pipe, out, f"[{name}] "), daemon=True)
            thread.start()
            threads.append(thread)

    try:
        yield pump
    finally:
        deadline = time.monotonic() + _LAST_WORDS_S
        for thread in threads:  # a grandchild that outlives its parent may hold the pipe: do not wait for it
            thread.join(max(0.0, deadline - time.monotonic()))


def _copy(pipe: IO[bytes], out: IO[str], prefix: str) -> None:
    with pipe:
        for line in pipe:
            out.write(f"{prefix}{line.decode(errors='replace').rstrip()}\n")  # one write, so that lines do not mix
            out.flush()
