"""Can this machine build a lab? If not, why, in words that end with what to do.

Everything is tried for real, in a namespace without a name that ends with the trial.
"""

from __future__ import annotations

import os
import shutil
import sys

from tightwire.lab.errors import LabError
from tightwire.lab.tools import call, in_empty_namespace

_ELSE = "or shape in user space: --link RATE"
_TRIAL = "tw-trial"  # eight letters: interfaces may have fifteen


def why_not() -> str | None:
    """The reason why no lab can be built here, or None if it can."""
    if sys.platform != "linux":
        return f"network namespaces are Linux's, and this is {sys.platform}; {_ELSE}"
    if os.geteuid() != 0:
        return f"not root (user id {os.geteuid()}): namespaces and tc need it; run as root, {_ELSE}"
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            return f"there is no {tool} command: install iproute2, {_ELSE}"
    reason = _refused(
        ("veth pairs", f"ip link add {_TRIAL} type veth peer name {_TRIAL}2"),
        ("bridges", f"ip link add {_TRIAL}3 type bridge"),
        ("tbf", f"tc qdisc add dev {_TRIAL} root tbf rate 1mbit burst 10000 limit 10000"),
    )
    return reason and f"{reason}: use another machine, {_ELSE}"


def why_no_latency() -> str | None:
    """The reason why links cannot have a latency here, given that a lab can be built; None if they can."""
    reason = _refused(
        ("veth pairs", f"ip link add {_TRIAL} type veth peer name {_TRIAL}2"),
        ("netem", f"tc qdisc add dev {_TRIAL} root netem delay 1ms"),
    )
    return reason and f"{reason}: leave the latency out, load the module (modprobe sch_netem), {_ELSE}"


def _refused(*trials: tuple[str, str]) -> str | None:
    """The first thing that the kernel refuses."""

    def attempt() -> str | None:
        for what, command in trials:
            try:
                call(command.split())
            except LabError as error:
                return f"this kernel refuses {what} ({str(error).rstrip('.')})"
        return None

    try:
        return in_empty_namespace(attempt)
    except OSError as error:
        return (
            f"the kernel refuses network namespaces ({error.strerror}; a container needs CAP_SYS_ADMIN, CAP_NET_ADMIN)"
        )
