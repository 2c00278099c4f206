"""Whose namespace it is: the rule by which leftovers are told from everything else."""

import os
import subprocess
import sys

from tests.lab.here import soon
from tightwire.lab.names import Name, Owner, is_alive, myself, read_name


def test_a_name_can_be_read_back() -> None:
    name = Name(myself(), 3, "h12")
    assert read_name(str(name)) == name
    assert read_name(str(Name(Owner(1, 2), 0, "switch"))) == Name(Owner(1, 2), 0, "switch")


def test_other_names_are_nobodys() -> None:
    for text in ("tw", "tw-1-2", "tw-1-2-3", "tw-1-2-3-host", "tw-a-2-3-h0", "tw-1-2-3-h0-x", "xtw-1-2-3-h0", "docker"):
        assert read_name(text) is None, text


def test_i_am_alive_and_my_predecessor_is_not() -> None:
    me = myself()
    assert me.pid == os.getpid() and is_alive(me)
    assert not is_alive(Owner(me.pid, me.started - 1)), "the same pid, given again after a reboot or a wrap"


def test_the_killed_are_dead_before_anybody_waits_for_them() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        with open(f"/proc/{process.pid}/stat") as stat:
            owner = Owner(process.pid, int(stat.read().rpartition(")")[2].split()[19]))
        assert is_alive(owner)
        process.kill()
        assert soon(lambda: not is_alive(owner)), "a zombie owns nothing"
        process.wait()
        assert not is_alive(owner)
