"""The parameter server between hosts of the lab: how much of a line it fills, and what a second server brings.

python -m benchmarks.server_lab [--rounds 4]

    line        a worker and a server, 1 Gbit/s each: 100 MB pushed, 100 MB pulled, over TLS with a token
    servers     4 workers push 20 MB each, cut over one server or two, 200 Mbit/s each: bytes a second

A server's port is the narrow place in both: it carries what all workers send. Workers ask their servers beside each
other, as `run/serve.py` does; for comparison also in turn, all in the same order.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from datetime import timedelta
from functools import partial
from typing import Any

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from benchmarks.harness import in_processes, write
from benchmarks.server_ends import NUMEL, Sum
from tightwire.algebra.schedule import Meta
from tightwire.links.abreast import abreast
from tightwire.server.events import Peek, Push

LINE_BITS, NARROW = 1e9, "200mbit"
WORKERS = 4
SMALL = 5_000_000
PATIENCE_S = 120.0


def fill(rounds: int) -> dict[str, Any]:
    """Rank 0 pushes to and pulls from rank 1."""
    store = _store()
    if os.environ["RANK"] == "1":
        service = _open(store, "server 0", NUMEL)
        store.wait(["done"], timedelta(seconds=PATIENCE_S))
        service.close()
        return {}
    caller = _call(store, "server 0")
    gradient, weights = torch.ones(NUMEL), torch.zeros(NUMEL)
    shares: dict[str, list[float]] = {"push": [], "pull": []}
    for number in range(rounds + 1):
        for way, seconds in (
            ("push", _timed(lambda n=number: caller.ask("center", _push(0, n, gradient), PATIENCE_S))),
            ("pull", _timed(lambda: weights.copy_(caller.ask("center", Peek(0), PATIENCE_S).wires["w"]))),
        ):
            if number:  # the first one warms up
                shares[way].append(8 * 4 * NUMEL / seconds / LINE_BITS)
    caller.leave()
    store.set("done", "")
    return {"nbytes": 4 * NUMEL, "share_of_line": shares}


def share(servers: int, rounds: int, ask: str = "abreast") -> list[float]:
    """Workers against one or two servers; returns the bytes a second that the servers carried, a figure a round."""
    store, rank = _store(), int(os.environ["RANK"])
    worker = rank  # rank 0 is a worker, and tells the result
    if rank >= WORKERS:
        service = _open(store, f"server {rank - WORKERS}", SMALL // servers)
        store.wait(["done"], timedelta(seconds=PATIENCE_S))
        service.close()
        return []
    callers = [_call(store, f"server {number}") for number in range(servers)]
    gradient = torch.ones(SMALL // servers)
    found = []
    for number in range(rounds + 1):
        _meet(store, f"begin {number}")
        begin = time.perf_counter()
        questions = [partial(c.ask, "center", _push(worker, number, gradient), PATIENCE_S) for c in callers]
        for reply in abreast(questions, [True] * servers) if ask == "abreast" else questions:
            reply()
        _meet(store, f"end {number}")
        if number:
            found.append(WORKERS * 4 * SMALL / (time.perf_counter() - begin))
    for caller in callers:
        caller.leave()
    if rank == 0:
        store.set("done", "")
    return found


def _push(worker: int, number: int, gradient: torch.Tensor) -> Push:
    return Push(worker, number, Meta(worker, number, 0), {"w": gradient}, pull=False)


def _timed(job: Any) -> float:
    begin = time.perf_counter()
    job()
    return time.perf_counter() - begin


def _store() -> TCPStore:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, rank == 0, use_libuv=True)


def _meet(store: TCPStore, where: str) -> None:
    """Until all workers are here."""
    if store.add(where, 1) == WORKERS:
        store.set(f"{where}, all", "")
    store.wait([f"{where}, all"], timedelta(seconds=PATIENCE_S))


def _open(store: TCPStore, name: str, numel: int) -> Any:
    """A server with keys of its own, on its host's address."""
    from tightwire.engines.quick import make_quick  # noqa: PLC0415

    make_quick()
    from tightwire.links.access import Access  # noqa: PLC0415 -- after malloc was told
    from tightwire.links.desk import Desk  # noqa: PLC0415
    from tightwire.links.door import embedded_door  # noqa: PLC0415
    from tightwire.links.service import Service  # noqa: PLC0415
    from tightwire.server.wireform import WireForm  # noqa: PLC0415

    service = Service(WireForm(), embedded_door(Access(keys="throw-away"), machines=2))
    store.set(name, service.add(Desk("center", Sum(numel))).write())
    return service


def _call(store: TCPStore, name: str) -> Any:
    from tightwire.engines.quick import make_quick  # noqa: PLC0415

    make_quick()
    from tightwire.links.flight import Place  # noqa: PLC0415
    from tightwire.links.flight_client import Caller  # noqa: PLC0415
    from tightwire.server.wireform import WireForm  # noqa: PLC0415

    store.wait([name], timedelta(seconds=PATIENCE_S))
    caller = Caller(Place.read(store.get(name).decode()), host=name, me=int(os.environ["RANK"]), form=WireForm())
    caller.come(PATIENCE_S)
    return caller


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    rounds = parser.parse_args().rounds
    load = os.getloadavg()[0]
    one, two, in_turn = (
        in_processes(servers + WORKERS, share, servers, rounds, ask, lab=NARROW)
        for servers, ask in ((1, "abreast"), (2, "abreast"), (2, "in turn"))
    )
    figures = {
        "load_average_before": load,
        "line": in_processes(2, fill, rounds, lab="1gbit"),
        "servers": {"rate": NARROW, "workers": WORKERS, "nbytes": 4 * SMALL, "one": one, "two": two,
                    "times": statistics.median(two) / statistics.median(one), "two in turn": in_turn},
    }  # fmt: skip
    write("server_lab", figures)


if __name__ == "__main__":
    main()
