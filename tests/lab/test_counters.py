"""The kernel's counters, from inside and outside."""

import pytest

from tests.lab.here import needs_lab, say, transfer
from tightwire.lab import Lab, own_counters
from tightwire.lab.counters import Counters, parse

TABLE = """Inter-|   Receive                                                |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:  100    1    0    0    0     0          0         0      200     2    0    0    0     0       0          0
   tw0:123456789 4567 0   0    0     0          0         0  9876543   210    0    0    0     0       0          0
"""


def test_reads_the_kernels_table() -> None:
    assert parse(TABLE, "tw0") == Counters(123456789, 4567, 9876543, 210)
    assert parse(TABLE, "eth0") is None


def test_outside_a_lab_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIGHTWIRE_LAB", raising=False)
    assert own_counters() is None
    monkeypatch.setenv("TIGHTWIRE_LAB", "1gbit")
    assert own_counters() is None, "the variable alone does not make a lab"


class TestHere:
    pytestmark = needs_lab

    def test_they_count_what_a_socket_carries(self) -> None:
        nbytes = 4_000_000
        with Lab(3, "1gbit") as lab:
            before = [lab.counters(rank) for rank in range(3)]
            told = transfer(lab, [(0, 1)], nbytes)[0]
            sent, got, idle = (lab.counters(rank) - before[rank] for rank in range(3))
            assert told["nbytes"] == nbytes
            assert 1.0 <= sent.tx_bytes / nbytes <= 1.06
            assert 1.0 <= got.rx_bytes / nbytes <= 1.06
            assert 0.99 <= told["rx"] / nbytes <= 1.06, "the receiver itself, from its accept on, counts the same"
            assert sent.rx_bytes < 0.03 * nbytes and got.tx_bytes < 0.03 * nbytes, "acknowledgements"
            assert idle.tx_bytes + idle.rx_bytes < 1000, "a bridge sends to whom it concerns"
            inside = int(say(lab, 1, "from tightwire.lab import own_counters; print(own_counters().rx_bytes)"))
            assert before[1].rx_bytes + got.rx_bytes <= inside <= lab.counters(1).rx_bytes, "one interface, one number"
