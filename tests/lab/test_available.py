"""Why there is no lab here, in a sentence that ends with a remedy."""

import errno
import os
import shutil
from collections.abc import Sequence

import pytest

from tests.lab.here import needs_lab
from tightwire.lab import Lab, LabError, available, tools, why_no_latency, why_not


def test_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert str(why_not()).startswith("not root (user id 1000)")
    with pytest.raises(LabError, match=r"links of 1gbit cannot be built here: not root.*--link"):
        Lab(2, "1gbit").__enter__()


@pytest.mark.parametrize("tool", ["ip", "tc"])
def test_without_a_tool(monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == tool else f"/sbin/{name}")
    assert f"no {tool} command: install iproute2" in str(why_not())


def test_on_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(available.sys, "platform", "darwin")
    assert "this is darwin" in str(why_not())


def test_where_namespaces_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/sbin/{name}")
    monkeypatch.setattr(tools, "leave_network", refuse)
    assert "refuses network namespaces (Operation not permitted" in str(why_not())


@pytest.mark.parametrize("missing", ["tbf", "netem"])
def test_where_the_kernel_lacks_something(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    def call(command: Sequence[str]) -> str:
        if missing in command:
            raise LabError("Specified qdisc kind is unknown.")
        return ""

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/sbin/{name}")
    monkeypatch.setattr(tools, "leave_network", lambda: None)
    monkeypatch.setattr(available, "call", call)
    reason = why_not() if missing == "tbf" else why_no_latency()
    assert str(reason).startswith(f"this kernel refuses {missing} (Specified qdisc kind is unknown)")
    assert (why_no_latency() if missing == "tbf" else why_not()) is None


class TestHere:
    pytestmark = needs_lab

    def test_latency_is_refused_by_the_name_of_what_is_missing(self) -> None:
        if why_no_latency() is None:
            pytest.skip("this kernel has netem")
        with pytest.raises(LabError, match=r"links of 1gbit,5ms cannot be built here: this kernel refuses netem"):
            Lab(2, "1gbit,5ms").__enter__()
