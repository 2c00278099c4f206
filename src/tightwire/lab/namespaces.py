"""The lab: hosts that are network namespaces, on a switch that is another, with links of a given rate.

      host h0             host h1
    ┌──────────┐        ┌──────────┐
    │   tw0    │        │   tw0    │      tbf on tw0: what the host sends
    └────╫─────┘        └────╫─────┘
    ┌────╨───────────────────╨─────┐
    │   p0         br0       p1    │      tbf on p0, p1: what the hosts receive
    └──────────────────────────────┘
                switch

Nothing is made in the machine's own namespace and nothing routes out, so hosts reach each other and nobody else. A lab
is removed when its ``with`` block ends, in whichever way: normally, by an error, Ctrl-C, SIGTERM or SIGHUP. Against
kill -9 nothing can be done at once; the kernel then kills the hosts' processes, and the next start removes the
namespaces.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tightwire.lab import enter
from tightwire.lab.available import why_no_latency, why_not
from tightwire.lab.counters import INTERFACE, Counters, counters_in
from tightwire.lab.errors import LabError
from tightwire.lab.hosts import MASTER_PORT, Host, courtesies, environment
from tightwire.lab.leftovers import clean_leftovers, remove
from tightwire.lab.names import NAMESPACES, Name, myself
from tightwire.lab.processes import end
from tightwire.lab.rate import LinkRate, parse_rate
from tightwire.lab.shaping import shape
from tightwire.lab.signals import undisturbed, unwinding
from tightwire.lab.tools import batch, inside, ip

_MOST_HOSTS = 1000  # a bridge has 1024 ports
_PER_NET = 250
_numbers = itertools.count()


class Lab:
    """Hosts on links of one rate; a context manager.

    >>> Lab(0, "1gbit")
    Traceback (most recent call last):
    tightwire.lab.errors.LabError: a lab of 0 hosts: ask for 1 to 1000
    """

    def __init__(
        self,
        hosts: int,
        rate: LinkRate | str,
        *,
        mtu: int = 1500,
        grace_s: float = 5.0,
        master_port: int = MASTER_PORT,
    ) -> None:
        if not 1 <= hosts <= _MOST_HOSTS:
            raise LabError(f"a lab of {hosts} hosts: ask for 1 to {_MOST_HOSTS}")
        if not 576 <= mtu <= 65_000:
            raise LabError(f"an MTU of {mtu} bytes: ask for 576 to 65000; Ethernet's is 1500")
        self.rate = parse_rate(rate) if isinstance(rate, str) else rate
        self.mtu = mtu
        self.grace_s = grace_s
        self.master_port = master_port
        self.hosts: tuple[Host, ...] = ()
        self._size = hosts
        self._switch = ""
        self._owner_pid = 0
        self._processes: list[subprocess.Popen[bytes]] = []
        self._signals = ExitStack()

    def __enter__(self) -> Self:
        """Build it; leftovers of labs whose process was killed are removed first."""
        if self.hosts:
            raise LabError("this lab is already open; make another Lab for a second one")
        reason = why_not() or (why_no_latency() if self.rate.latency_s else None)
        if reason is not None:
            raise LabError(f"a lab with links of {self.rate} cannot be built here: {reason}")
        clean_leftovers()
        owner, number = myself(), next(_numbers)
        self._owner_pid = owner.pid
        self._switch = str(Name(owner, number, "switch"))
        self.hosts = tuple(_host(rank, str(Name(owner, number, f"h{rank}"))) for rank in range(self._size))
        # The kernel kills a child when the *thread* that started it ends: so one thread that lives as long as the lab.
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tightwire-lab-start")
        self._signals.enter_context(unwinding())
        atexit.register(self.close)  # for a signal that comes between two lines that clean up
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove it."""
        self.close()

    def close(self) -> None:
        """End the processes in the hosts, remove everything that was made. May be called twice."""
        if not self.hosts or os.getpid() != self._owner_pid:  # a forked child inherits the object, not the lab
            return
        try:
            with undisturbed():
                end(self._processes, grace_s=self.grace_s)
                self._starter.shutdown()
                remove([name for name in (*(host.namespace for host in self.hosts), self._switch) if _exists(name)])
                self.hosts, self._processes = (), []
                atexit.unregister(self.close)
        finally:
            self._signals.close()

    def start(
        self,
        rank: int,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process in a host. It finds torchrun's variables, and ``env`` on top; its pid is its own.

        It leads a process group of its own, and dies with this process. ``stdout`` and ``stderr`` are `subprocess`'s.
        """
        host = self._host(rank)
        given = {**os.environ, **(env or {})}
        full = {**os.environ, **courtesies(len(self.hosts), given), **self.environment(rank), **(env or {})}
        if not command or shutil.which(command[0], path=full.get("PATH")) is None:
            raise LabError(f"there is no command {' '.join(command[:1])!r} to start on {host.name}; check PATH")
        launcher = [sys.executable, "-I", "-S", enter.__file__, str(NAMESPACES / host.namespace), str(os.getpid())]

        def begin() -> subprocess.Popen[bytes]:
            process = subprocess.Popen(
                [*launcher, *command],
                env=full,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
            self._processes.append(process)
            return process

        return self._starter.submit(begin).result()

    def environment(self, rank: int) -> dict[str, str]:
        """The variables that a process in this host finds: torchrun's, and who it is in the lab."""
        return environment(self._host(rank), self.hosts, self.rate, self.master_port)

    def counters(self, rank: int) -> Counters:
        """The kernel's counters of a host's interface, read from outside."""
        return counters_in(self._host(rank).namespace)

    def cut(self, rank: int) -> None:
        """Pull a host's cable: what is under way is lost, and nothing says so."""
        batch("ip", self._switch, [f"link set p{self._host(rank).rank} down"])

    def mend(self, rank: int) -> None:
        """Plug it in again."""
        batch("ip", self._switch, [f"link set p{self._host(rank).rank} up"])

    def _host(self, rank: int) -> Host:
        if not self.hosts:
            raise LabError("the lab is not open; use it in a with block: with Lab(4, '1gbit') as lab: …")
        if not 0 <= rank < len(self.hosts):
            raise LabError(f"there is no host {rank}: this lab has hosts 0 to {len(self.hosts) - 1}")
        return self.hosts[rank]

    def _build(self) -> None:
        how = shape(self.rate, self.mtu)
        ip("netns", "add", self._switch)
        inside(self._switch, _quieten)
        lines, shapes = [f"link add br0 mtu {self.mtu} type bridge", "link set br0 up"], []
        for host in self.hosts:
            port = f"p{host.rank}"
            ip("netns", "add", host.namespace)
            inside(host.namespace, _quieten)
            lines += [
                f"link add {port} mtu {self.mtu} type veth peer name {INTERFACE} mtu {self.mtu} netns {host.namespace}",
                f"link set {port} master br0 up",
            ]
            shapes.append(f"qdisc add dev {port} root {how.tbf()}")
        batch("ip", self._switch, lines)
        batch("tc", self._switch, shapes)
        for host in self.hosts:
            batch("tc", host.namespace, [f"qdisc add dev {INTERFACE} root handle 1: {how.tbf()}"])
            if self.rate.latency_s:  # once on each way, so that the latency from host to host is the one asked for
                batch("tc", host.namespace, [f"qdisc add dev {INTERFACE} parent 1:1 handle 10: {how.netem()}"])
            batch(
                "ip",
                host.namespace,
                [
                    "link set lo up",
                    f"address add {host.address}/16 dev {INTERFACE}",
                    f"link set {INTERFACE} gso_max_size {how.segment_nbytes} up",
                ],
            )


def _host(rank: int, namespace: str) -> Host:
    return Host(rank, f"h{rank}", namespace, f"10.77.{rank // _PER_NET}.{rank % _PER_NET + 1}")


def _exists(namespace: str) -> bool:
    return (NAMESPACES / namespace).exists()


def _quieten() -> None:
    """Make the namespace the same on every machine: no IPv6 chatter in the counters, a common congestion control.

    BBR, the default of some machines, paces by timers of its own and nearly halved what two cores carry at 10 Gbit/s. A
    namespace may choose only among what the machine allows; Reno is always allowed.
    """
    net = Path("/proc/sys/net")
    for setting, values in {
        net / "ipv6/conf/all/disable_ipv6": ["1"],
        net / "ipv6/conf/default/disable_ipv6": ["1"],
        net / "ipv4/tcp_congestion_control": ["cubic", "reno"],
    }.items():
        for value in values:
            with suppress(OSError):  # a machine without it is as good: none of this decides rates
                setting.write_text(value)
                break
