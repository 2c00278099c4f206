"""After kill -9: children die with their parent, the next start removes the rest, and touches nothing else."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.lab.here import Elsewhere, lives_in, namespaces_of, needs_lab, runs, soon, transfer
from tightwire.lab import Lab, clean_leftovers

pytestmark = needs_lab
SOMEBODY = "another process on this machine opened a lab just now, and cleaned up first"


@pytest.fixture
def foreign() -> Iterator[str]:
    """A namespace that somebody else made, with a similar name."""
    name = f"tw-{os.getpid()}-test"
    subprocess.run(["ip", "netns", "add", name], check=True)
    yield name
    subprocess.run(["ip", "netns", "delete", name], check=True)


def test_the_next_start_removes_what_a_killed_process_left(foreign: str) -> None:
    with Elsewhere() as killed, Elsewhere() as living, Lab(2, "1gbit") as mine:
        killed.process.kill()
        assert soon(lambda: not runs(killed.child)), "the kernel kills it with its parent"
        guest = subprocess.Popen(["ip", "netns", "exec", killed.names[0], "sleep", "60"])
        try:
            if not soon(lambda: guest.poll() is not None or lives_in(killed.names[0], guest.pid)) or guest.poll():
                pytest.skip(SOMEBODY)
            assert namespaces_of(killed.process.pid) == killed.names, "nobody was left to remove them"
            with Lab(1, "1gbit"):
                assert namespaces_of(killed.process.pid) == []
                assert soon(lambda: not runs(killed.escaped)), "it carries the lab's mark"
                assert guest.poll() is None, "somebody else's process, even there, is not ours to kill"
                assert namespaces_of(living.process.pid) == living.names
                assert runs(living.child)
                assert foreign in namespaces_of(os.getpid())
        finally:
            guest.kill()
            guest.wait()
        assert transfer(mine, [(0, 1)], 1000)[0]["nbytes"] == 1000, "a lab in use still works"


def test_cleaning_says_what_it_removed() -> None:
    with Elsewhere() as killed:
        killed.process.kill()
        killed.process.wait()
        if not namespaces_of(killed.process.pid):
            pytest.skip(SOMEBODY)
        assert set(killed.names) <= set(clean_leftovers())
        assert not set(killed.names) & set(clean_leftovers())
