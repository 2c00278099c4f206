"""The server behind its socket: questions and answers, tokens, streams that break off, workers that come and go."""

from __future__ import annotations

import json
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest
import torch
from torch import Tensor

from tests.server.shards import ORIGIN, flat, push, shard
from tightwire.algebra.errors import LinkError, PayloadError, PeerLost, PeerTimeout
from tightwire.algebra.schedule import Schedule
from tightwire.links.desk import Desk
from tightwire.links.flight import BROKEN, SCHEMA, Place, send, write_envelope
from tightwire.links.flight_client import Caller
from tightwire.links.frames import announce
from tightwire.links.malloc import keep_memory
from tightwire.links.service import Service
from tightwire.schedules.clock import asynchronous, every_step
from tightwire.server.events import Center, Exported, Import, Peek, Taken
from tightwire.server.shard import Shard
from tightwire.server.wireform import WireForm


@contextmanager
def served(schedule: Schedule, workers: int = 2) -> Iterator[tuple[Shard, Place, Service]]:
    made, service = shard(schedule, workers=workers), Service(WireForm())
    place = service.add(Desk("shard", made))
    try:
        yield made, place, service
    finally:
        service.close()


@contextmanager
def caller(place: Place, me: int = 1) -> Iterator[Caller]:
    made = Caller(place, host=0, me=me, form=WireForm())
    made.come(5.0)
    try:
        yield made
    finally:
        made.leave()


def test_push_and_pull_in_one_call() -> None:
    with served(asynchronous()) as (made, place, _), caller(place) as worker:
        reply = worker.ask("shard", push(1, 0, 2.0), 5.0)
        assert isinstance(reply, Center) and reply.version == 1
        assert torch.cat([reply.wires[label] for label in made.center]).equal(ORIGIN - 2.0)
        assert isinstance(worker.ask("shard", push(1, 1, 1.0, pull=False), 5.0), Taken)
        assert flat(made).equal(ORIGIN - 3.0)


def test_both_ends_count_the_same_bytes() -> None:
    here: list[tuple[str, str, int, int]] = []
    there: list[tuple[str, str, int, int]] = []
    with served(asynchronous()) as (made, place, service), caller(place) as worker:
        worker.carried = lambda name, event, tx, rx: here.append((name, type(event).__name__, tx, rx))
        service.carried = lambda name, event, tx, rx: there.append((name, type(event).__name__, rx, tx))
        worker.ask("shard", push(1, 0), 5.0)
        worker.ask("shard", push(1, 1, pull=False), 5.0)
        worker.ask("shard", Peek(1), 5.0)
        assert here == there and [kind for _, kind, _, _ in here] == ["Push", "Push", "Peek"]
        payload = flat(made).nbytes
        assert payload < here[0][2] < payload + 2000 and here[0][3] > payload + here[1][3] - 100


def test_state_larger_than_a_piece_travels_both_ways() -> None:
    class Echo:
        def handle(self, event: Import) -> list[tuple[int, Exported]]:
            return [(event.worker, Exported(event.state))]

    service = Service(WireForm())
    place = service.add(Desk("echo", Echo()))
    state = {"big": torch.arange(700_000, dtype=torch.float32), "none": torch.zeros(0), "deep": [{3: (1.5, "x")}]}
    try:
        with caller(place) as worker:
            back = worker.ask("echo", Import(1, state, True), 10.0).state
    finally:
        service.close()
    assert back["big"].equal(state["big"]) and back["none"].numel() == 0 and back["deep"] == state["deep"]


def test_a_reply_that_waits_for_others_comes_when_they_have() -> None:
    with served(every_step()) as (made, place, _), caller(place, 0) as zero, caller(place, 1) as one:
        got: dict[int, Any] = {}
        first = threading.Thread(target=lambda: got.update({0: zero.ask("shard", push(0, 0, 1.0), 10.0)}))
        first.start()
        time.sleep(0.1)
        assert not got
        assert one.ask("shard", push(1, 0, 3.0), 10.0).version == 1
        first.join(5.0)
        assert got[0].version == 1
        assert flat(made).equal(ORIGIN - 4.0)


def test_waiting_in_vain_names_who_did_not_come() -> None:
    with served(every_step()) as (_, place, _), caller(place, 0) as zero, pytest.raises(PeerTimeout) as caught:
        zero.ask("shard", push(0, 0), 0.2)
    assert "waits for rank 1 (exchange_timeout_s)" in str(caught.value)


def test_a_worker_that_dies_ends_the_wait_of_others_at_once() -> None:
    with served(every_step()) as (_, place, service), caller(place, 0) as zero:
        dying = Caller(place, host=0, me=1, form=WireForm())
        dying.come(5.0)
        assert service.present == {0, 1}
        threading.Timer(0.2, dying.drop).start()
        begin = time.monotonic()
        with pytest.raises(PeerLost, match="rank 0 waits at shard for rank 1, gone"):
            zero.ask("shard", push(0, 0), 30.0)
        assert time.monotonic() - begin < 10.0
        assert service.present == {0}


def test_a_server_that_closes_is_lost_by_name() -> None:
    with served(every_step()) as (_, place, service), caller(place, 1) as worker:
        threading.Timer(0.1, service.close).start()
        with pytest.raises(PeerLost, match=r"shard was closed|rank 0, where it is, is gone"):
            worker.ask("shard", push(1, 0), 30.0)
        with pytest.raises(PeerLost, match="rank 0, where it is, is gone"):
            worker.ask("shard", push(1, 1), 30.0)


def test_goodbyes_are_waited_for() -> None:
    with served(asynchronous()) as (_, place, service):
        worker = Caller(place, host=0, me=1, form=WireForm())
        worker.come(5.0)
        assert service.wait_for_goodbyes(0.1) == [1]
        threading.Timer(0.1, worker.leave).start()
        assert service.wait_for_goodbyes(10.0) == []


def test_errors_keep_their_kind_and_leave_the_shard_alone() -> None:
    with served(asynchronous()) as (made, place, _), caller(place) as worker:
        with pytest.raises(PayloadError, match="this shard holds"):
            worker.ask("shard", replace(push(1, 0), wires={"other": torch.zeros(1)}), 5.0)
        with pytest.raises(PayloadError, match="dense payload of 4 bytes"):
            worker.ask("shard", replace(push(1, 0), wires={label: torch.zeros(1) for label in made.center}), 5.0)
        with pytest.raises(PayloadError, match="nothing called 'elsewhere' is here"):
            worker.ask("elsewhere", Peek(1), 5.0)
        assert flat(made).equal(ORIGIN) and made.version == 0


@pytest.mark.parametrize("token", ["", "0" * 64])
def test_without_the_token_nobody_gets_in(token: str) -> None:
    with served(asynchronous()) as (made, place, service):
        stranger = Caller(replace(place, token=token), host=0, me=1, form=WireForm())
        with pytest.raises(LinkError, match="token"):
            stranger.come(5.0)
        with pytest.raises(LinkError, match="token"):
            stranger.ask("shard", push(1, 0), 5.0)
        stranger.drop()
        assert made.version == 0 and not service.present
        assert token not in repr(place) or not token
        assert place.token not in repr(place)


def stream(place: Place, command: bytes, tensors: list[Tensor], *, end: str) -> dict[str, Any] | None:
    """A call by hand, that may break off."""
    client = fl.connect(place.location)
    options = fl.FlightCallOptions(timeout=5.0, headers=place.options)
    writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(command), options)
    with suppress(*BROKEN):  # the server may have refused already
        writer.begin(SCHEMA)
        send(writer, tensors)
    if end == "drop":
        del writer, reader
        client.close()
        return None
    with suppress(*BROKEN):
        writer.done_writing()
    answer: dict[str, Any] = json.loads(reader.read_chunk().app_metadata.to_pybytes())
    writer.close()
    client.close()
    return answer


def request(**changes: Any) -> tuple[bytes, list[Tensor]]:
    data, tensors = WireForm().pack(push(1, 0, 5.0))
    envelope = {"to": "shard", "from": 1, "patience_s": 2.0, "data": data, "tensors": announce(tensors), **changes}
    return write_envelope(envelope), tensors


def test_a_push_that_broke_off_is_not_applied() -> None:
    command, tensors = request()
    with served(asynchronous()) as (made, place, _):
        answer = stream(place, command, tensors[:1], end="done")
        assert answer is not None and answer["error"] == "PayloadError" and "bytes early" in answer["text"]
        stream(place, command, tensors[:1], end="drop")
        time.sleep(0.2)
        assert made.version == 0 and flat(made).equal(ORIGIN)
        assert stream(place, command, tensors, end="done") is not None
        assert made.version == 1


BAD = {
    "no json": b"\xff\xfe",
    "no object": b"[]",
    "no addressee": request(to=None)[0],
    "no patience": request(patience_s="long")[0],
    "a fortune announced": request(tensors=[["float64", [1 << 50]]])[0],
    "no announcement": request(tensors=None)[0],
    "no event": request(data={"kind": "Exec", "fields": {}})[0],
}


@pytest.mark.parametrize("name", BAD)
def test_malformed_requests_are_answered_with_a_reason(name: str) -> None:
    with served(asynchronous()) as (made, place, _):
        answer = stream(place, BAD[name], [], end="done")
        assert answer is not None and answer["error"] == "PayloadError", answer
        assert made.version == 0


def test_columns_that_are_not_bytes_are_refused() -> None:
    command, _ = request()
    with served(asynchronous()) as (made, place, _):
        client = fl.connect(place.location)
        writer, reader = client.do_exchange(
            fl.FlightDescriptor.for_command(command), fl.FlightCallOptions(timeout=5.0, headers=place.options)
        )
        schema = pa.schema([("text", pa.string())])
        with suppress(*BROKEN):
            writer.begin(schema)
            writer.write_batch(pa.RecordBatch.from_arrays([pa.array(["x"])], schema=schema))
            writer.done_writing()
        answer = json.loads(reader.read_chunk().app_metadata.to_pybytes())
        writer.close()
        client.close()
        assert answer["error"] == "PayloadError" and "one column of bytes" in answer["text"]
        assert made.version == 0


def test_malloc_takes_its_settings_where_it_is_glibcs() -> None:
    assert keep_memory() == (platform.libc_ver()[0] == "glibc")
