"""Workers on the hosts of the lab: a network namespace each, links of the asked rate, bytes counted by the kernel."""

from __future__ import annotations

from tightwire.engines.config import RunConfig
from tightwire.engines.forked import fork, preload, wait
from tightwire.engines.local import asking_to_stop
from tightwire.engines.worker import work
from tightwire.lab import Lab
from tightwire.lab.enter import enter
from tightwire.lab.names import NAMESPACES


def run_lab(config: RunConfig, *, resume: bool) -> None:
    """Run one worker on each host."""
    assert config.lab is not None
    logs = config.path / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    preload()
    with asking_to_stop(config), Lab(config.workers, config.lab) as lab:
        started = [
            fork(
                _on_host, str(NAMESPACES / host.namespace), config.folder, config.wire, resume,
                env=lab.environment(host.rank), log=logs / f"rank-{host.rank}.log",
            )
            for host in lab.hosts
        ]  # fmt: skip
        wait(started)


def _on_host(namespace: str, folder: str, link: str, resume: bool) -> None:
    enter(namespace)  # before anything opens a socket
    work(folder, link, resume)
