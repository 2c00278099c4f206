"""Built, used, removed: and the machine is as it was."""

import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.lab.here import Elsewhere, machine, namespaces_of, needs_lab, runs, say, soon, transfer
from tightwire.lab import Lab, LabError, LinkRate, namespaces, why_no_latency

FRAMING = 1514 / 1448  # of a full Ethernet frame: what the wire carries for what TCP was given


@pytest.mark.parametrize("hosts", [-1, 0, 1001])
def test_impossible_sizes(hosts: int) -> None:
    with pytest.raises(LabError, match=f"a lab of {hosts} hosts: ask for 1 to 1000"):
        Lab(hosts, "1gbit")


def test_impossible_mtu() -> None:
    with pytest.raises(LabError, match="576 to 65000"):
        Lab(2, "1gbit", mtu=10)


class TestHere:
    pytestmark = needs_lab

    def test_the_machine_is_as_before(self) -> None:
        before, mine = machine(), namespaces_of(os.getpid())
        with Lab(2, LinkRate(10**9)) as lab, Lab(1, "10mbit") as other:
            names = {host.namespace for host in (*lab.hosts, *other.hosts)}
            assert len(names) == 3 and names < set(namespaces_of(os.getpid()))
            assert machine() == before, "nothing is made in the machine's own namespace"
            queues = subprocess.run(
                ["tc", "-n", lab.hosts[1].namespace, "qdisc"], check=True, capture_output=True, text=True
            )
            assert "tbf" in queues.stdout and "rate 1Gbit" in queues.stdout
        assert namespaces_of(os.getpid()) == mine
        assert machine() == before
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    def test_an_error_removes_it(self) -> None:
        mine = namespaces_of(os.getpid())
        children: list[subprocess.Popen[bytes]] = []

        def fail() -> None:
            with Lab(2, "1gbit") as lab:
                children.append(lab.start(0, [sys.executable, "-c", "import time; time.sleep(60)"]))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert namespaces_of(os.getpid()) == mine
        assert children[0].returncode == -signal.SIGTERM

    def test_an_error_while_building_removes_what_was_built(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(tool: str, namespace: str, lines: Sequence[str]) -> None:
            if tool == "tc":
                assert namespaces_of(os.getpid())
                raise LabError("tc failed")

        mine = namespaces_of(os.getpid())
        monkeypatch.setattr(namespaces, "batch", fail)
        with pytest.raises(LabError, match="tc failed"):
            Lab(2, "1gbit").__enter__()
        assert namespaces_of(os.getpid()) == mine

    @pytest.mark.parametrize(
        ("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
    )
    def test_a_signal_removes_it(self, number: int, code: int) -> None:
        with Elsewhere() as other:
            assert len(other.names) == 3
            other.process.send_signal(number)
            assert other.process.wait(10) == code
            assert namespaces_of(other.process.pid) == []
            assert not runs(other.child)
            assert soon(lambda: not runs(other.escaped)), "also what left its process group"

    def test_a_forked_child_does_not_remove_it(self) -> None:
        with Lab(1, "1gbit") as lab:
            child = os.fork()
            if child == 0:
                lab.close()
                os._exit(0)
            os.waitpid(child, 0)
            assert lab.hosts[0].namespace in namespaces_of(os.getpid())

    def test_hosts_reach_each_other_and_nobody_else(self) -> None:
        addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
        with socket.create_server(("", 0)) as server, Lab(2, "1gbit") as lab:
            port = server.getsockname()[1]
            outside = [("127.0.0.1", port), ("192.0.2.1", 80), ("8.8.8.8", 53), *((a, port) for a in addresses)]
            program = (
                "import errno, socket\n"
                f"for where in {outside!r}:\n"
                "    try: socket.create_connection(where, timeout=2)\n"
                "    except OSError as error: print(errno.errorcode.get(error.errno, error))\n"
                "    else: print('REACHED', where)\n"
            )
            said = say(lab, 0, program).split("\n")
            assert len(said) == len(outside) and set(said) <= {"ENETUNREACH", "ECONNREFUSED"}, said
            assert transfer(lab, [(0, 1)], 1000)[0]["nbytes"] == 1000

    @pytest.mark.parametrize(
        ("rate", "pairs", "nbytes"),
        [
            ("100mbit", [(0, 1), (1, 0)], 2_500_000),
            ("1gbit", [(0, 1), (1, 0)], 20_000_000),
            ("1gbit", [(0, 2), (1, 2)], 10_000_000),
            ("1gbit", [(0, 1), (0, 2)], 10_000_000),
        ],
        ids=["100mbit, both ways", "1gbit, both ways", "1gbit, two to one", "1gbit, one to two"],
    )
    def test_the_rate_holds(self, rate: str, pairs: list[tuple[int, int]], nbytes: int) -> None:
        with Lab(3, rate) as lab:
            busiest = max((Counter(("from", a) for a, _ in pairs) + Counter(("to", b) for _, b in pairs)).values())
            wire_s = lab.rate.seconds(busiest * nbytes * FRAMING)
            ratios = []
            while not ratios or (min(ratios) > 1.1 and len(ratios) < 12):  # a busy machine may be slower than the link,
                told = transfer(lab, pairs, nbytes)
                ratios.append((max(t["ended"] for t in told) - min(t["began"] for t in told)) / wire_s)
                assert ratios[-1] >= 0.9, "… never faster"
            assert min(ratios) <= 1.2

    def test_latency_is_from_host_to_host(self) -> None:
        reason = why_no_latency()
        if reason is not None:
            pytest.skip(reason)
        connect = (
            "import os, socket, time\n"
            "began = time.monotonic()\n"
            "try: socket.create_connection((os.environ['TO'], 9))\n"
            "except ConnectionRefusedError: print(time.monotonic() - began)\n"
        )
        with Lab(2, "100mbit,20ms") as lab:
            say(lab, 0, connect, TO=lab.hosts[1].address)  # resolves the address
            there_and_back_s = float(say(lab, 0, connect, TO=lab.hosts[1].address))
            assert 0.04 <= there_and_back_s <= 0.08
