"""A server that stands alone: it keeps what it is told, for several runs that cannot reach each other's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
import torch

from tests.server.shards import ORIGIN, push, shard, shard_with_optimizer
from tightwire.algebra.errors import AccessError, AlreadyOpen, LinkError, PayloadError, PeerLost, UnknownMachine
from tightwire.links.certificates import Signed, issue, make_authority
from tightwire.links.door import Door
from tightwire.links.flight import Place
from tightwire.links.flight_client import Caller
from tightwire.links.limits import Limits
from tightwire.links.service import Service
from tightwire.links.tokens import Token, fresh_token
from tightwire.schedules.clock import asynchronous, every_step
from tightwire.server.events import Center, Enter, Peek
from tightwire.server.wireform import WireForm

MINE, WATCH, OTHER = fresh_token("mine"), fresh_token("mine", "read"), fresh_token("other")
AUTHORITY = make_authority("test", 1.0)
SERVER = issue(AUTHORITY, "server", ["127.0.0.1"], 1.0)
WORKER = issue(AUTHORITY, "worker", [], 1.0)


@contextmanager
def standing(
    certificate: Signed = SERVER, *, client_authority: bytes = b"", limits: Limits | None = None
) -> Iterator[Service]:
    door = Door(
        "grpc+tls://127.0.0.1:0", (MINE, WATCH, OTHER), certificate.certificate, certificate.key, client_authority,
        limits or Limits(), hands_out=False,
    )  # fmt: skip
    service = Service(WireForm(), door)
    try:
        yield service
    finally:
        service.close()


@contextmanager
def at(
    service: Service, token: Token = MINE, me: int = 0, room: str = "1", identity: Signed | None = None
) -> Iterator[Caller]:
    place = replace(service.listen(), token=token.secret, authority=AUTHORITY.certificate.decode(), host="elsewhere")
    own = (identity.certificate, identity.key) if identity else None
    caller = Caller(place, host="the server", me=me, form=WireForm(), room=room, identity=own)
    caller.connect(5.0) if token.may == "read" else caller.come(5.0)
    try:
        yield caller
    finally:
        caller.leave()


def test_a_shard_is_opened_asked_and_gone_with_its_last_worker() -> None:
    with standing() as service:
        with at(service) as zero, at(service, me=1) as one:
            zero.open("shard", shard_with_optimizer(asynchronous(), workers=2), 5.0)
            reply = one.ask("1/shard", push(1, 0, 1.0, rates=(0.5, 0.25)), 5.0)
            assert isinstance(reply, Center) and reply.version == 1
            assert torch.cat([reply.wires[label] for label in ("first", "second")]).equal(
                ORIGIN - torch.tensor([0.5] * 6 + [0.25] * 6)
            )
            report = zero.status(5.0)
            assert report["machines"] == ["1/shard"] and [w["asked"] for w in report["workers"]] == [0, 1]
            with pytest.raises(AlreadyOpen):
                one.open("shard", shard(asynchronous()), 5.0)
        assert not service.desks and not service.present


def test_another_runs_token_finds_nothing_and_a_watcher_changes_nothing() -> None:
    with standing() as service, at(service) as worker, at(service, OTHER) as other, at(service, WATCH, -1) as watcher:
        worker.open("shard", shard(asynchronous(), workers=2), 5.0)
        with pytest.raises(UnknownMachine):
            other.ask("1/shard", push(0, 0), 5.0)
        assert other.status(5.0)["machines"] == []
        assert watcher.ask("1/shard", Peek(-1), 5.0).version == 0
        assert watcher.status(5.0)["machines"] == ["1/shard"]
        with pytest.raises(AccessError, match="and no worker's"), at(service, WATCH, 0) as posing:
            posing.ask("1/shard", Peek(0), 5.0)
        with pytest.raises(AccessError, match="may only watch; a Push changes something"):
            watcher.ask("1/shard", push(-1, 0), 5.0)
        with pytest.raises(AccessError, match="may only watch"):
            watcher.open("more", shard(asynchronous()), 5.0)
        with pytest.raises(PayloadError, match="rank 0 speaks for worker 1"):
            worker.ask("1/shard", push(1, 0), 5.0)
        assert worker.ask("1/shard", Peek(0), 5.0).version == 0
        assert service.guard.refused == {"unknown machine": 1, "token": 3, "not allowed": 1}


def test_a_token_opens_one_run_at_a_time_and_a_new_attempt_takes_over_from_the_dead() -> None:
    with standing() as service, ExitStack() as held:
        first = held.enter_context(at(service))
        first.open("shard", shard(every_step(), workers=2), 5.0)
        second = held.enter_context(at(service, room="2"))
        with pytest.raises(AccessError, match="a token opens one run"):
            second.open("shard", shard(asynchronous(), workers=1), 5.0)
        waiting: list[Exception] = []

        def wait() -> None:
            try:
                first.ask("1/shard", push(0, 0), 20.0)
            except LinkError as error:
                waiting.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.3)
        service.lost(service.attendance.here("mine", "1")[0])  # as when its process dies
        second.open("shard", shard(asynchronous(), workers=1), 5.0)
        thread.join(5.0)
        assert isinstance(waiting[0], PeerLost)
        with pytest.raises(UnknownMachine):
            first.ask("1/shard", Enter(0), 5.0)
        assert isinstance(second.ask("2/shard", push(0, 0), 5.0), Center)


def test_with_mutual_tls_a_certificate_is_asked_for_too() -> None:
    with standing(client_authority=AUTHORITY.certificate) as service:
        with at(service, identity=WORKER) as worker:
            worker.open("shard", shard(asynchronous(), workers=1), 5.0)
        strangers = make_authority("another", 1.0)
        for identity in (None, issue(strangers, "worker", [], 1.0), issue(AUTHORITY, "worker", [], -1.0)):
            with pytest.raises(LinkError), at(service, identity=identity):
                pass


@pytest.mark.parametrize(
    "certificate",
    [issue(AUTHORITY, "server", ["127.0.0.1"], -1.0), issue(AUTHORITY, "server", ["10.1.2.3"], 1.0),
     issue(make_authority("another", 1.0), "server", ["127.0.0.1"], 1.0)],
    ids=["expired", "of another host", "of another authority"],
)  # fmt: skip
def test_a_worker_does_not_believe_every_server(certificate: Signed) -> None:
    with standing(certificate) as service, pytest.raises(LinkError), at(service):
        pass


def test_what_is_announced_beyond_the_limits_is_refused_before_it_is_sent() -> None:
    with standing(limits=Limits(message_nbytes=1000)) as service, at(service) as worker:
        big = torch.zeros(1000)
        with pytest.raises(PayloadError, match="a message of 4,000 bytes"):
            worker.ask("1/shard", replace(push(0, 0), wires={"first": big}), 5.0)
        assert not service.desks


def test_nothing_is_opened_in_a_workers_own_process() -> None:
    service = Service(WireForm())
    try:
        place: Place = service.listen()
        caller = Caller(place, host=0, me=1, form=WireForm())
        caller.come(5.0)
        with pytest.raises(PayloadError, match="made here by the process itself"):
            caller.open("shard", shard(asynchronous()), 5.0)
        caller.leave()
    finally:
        service.close()
