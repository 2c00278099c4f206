"""Carries activations and errors over the boundaries between stages, beside the computing.

    expect ─▶ a buffer is posted a tick ahead, so that the message moves while this stage computes (two are in use)
    take   ─▶ waits for it, decodes
    send   ─▶ encodes, starts; `land` waits two ticks later: sooner, two stages could wait for each other to take

The first message for each shape of the inputs has a header, which says what the boundary's own shape is. Codecs whose
payloads have no fixed size send a header each time. What a codec leaves out may be remembered (error feedback), for
each boundary and direction, until the pipe is drained.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from time import perf_counter

import torch
from torch import Tensor

from tightwire.algebra.codec import Payload, drive
from tightwire.algebra.compressor import Composed, Kept
from tightwire.algebra.errors import UsageError
from tightwire.algebra.link import Pending
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import At
from tightwire.codecs.half import Half
from tightwire.links.frames import Frame, room_for
from tightwire.run.transport import Transport
from tightwire.splits.boundary import HEADER_INTS, header, shape_of

_MOST_BYTES = 1 << 34  # no activation is larger than this: a header that says so is damaged
Form = tuple[torch.dtype, tuple[int, ...], int]


@dataclass(frozen=True)
class Letter:
    """Which message: of a minibatch, before a stage, for inputs of a shape; ``plain`` ones are never encoded."""

    minibatch: int
    stage: int
    inputs: Hashable
    plain: bool = False

    @property
    def shape(self) -> tuple[int, Hashable]:
        """What the shape of the message depends on."""
        return self.stage, self.inputs


@dataclass
class _Channel:
    """Messages from or to one rank with one tag."""

    forms: dict[Hashable, Form] = field(default_factory=dict)
    asked: deque[Letter] = field(default_factory=deque)
    posted: deque[tuple[Letter, Pending, Tensor]] = field(default_factory=deque)
    kept: dict[Spec, Kept] = field(default_factory=dict)


class Ferry:
    """One worker's boundaries."""

    def __init__(self, transport: Transport, compressor: Composed, device: torch.device, seed: int) -> None:
        self._transport = transport
        self._compressor = compressor
        self._device = device
        self._at = At(0, None, 1.0, transport.link.world, seed)
        self._coded = not compressor.codec.identity or compressor.memory.keeps
        self._fixed = compressor.codec.identity or isinstance(compressor.codec, Half)
        self._me = transport.link.world.rank
        self._in: dict[tuple[int, int], _Channel] = {}
        self._out: dict[tuple[int, int], _Channel] = {}
        self._home: dict[int, deque[Tensor]] = {}
        self._sending: deque[tuple[int, Pending, Tensor]] = deque()
        self.waited_s = 0.0  # for messages that were not there yet

    # ── out ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def send(self, tensor: Tensor, to: int, tag: int, letter: Letter, tick: int) -> None:
        """Start sending; what this worker sends to itself is handed over."""
        if to == self._me:
            self._home.setdefault(tag, deque()).append(tensor)
            return
        channel = self._out.setdefault((to, tag), _Channel())
        body = self._encoded(tensor, channel, letter)
        form = (tensor.dtype, tuple(tensor.shape), body.nbytes)
        if not self._posts(letter) or letter.shape not in channel.forms:
            channel.forms[letter.shape] = form
            self._start(header(tensor, body.nbytes), to, tag, tick)
        elif channel.forms[letter.shape] != form:
            raise UsageError(
                f"a stage gave {form[1]} of {form[0]} where it gave {channel.forms[letter.shape][1]} before for inputs "
                "of the same shape; a split needs stages whose results depend on the shape of their inputs alone"
            )
        self._start(body, to, tag, tick)
        self._transport.ledger.produced(body.nbytes)

    def _start(self, message: Tensor, to: int, tag: int, tick: int) -> None:
        device = self._transport.link.wire_device
        on_wire = message if device is None else message.to(device)
        self._sending.append((tick, self._transport.link.near.send(on_wire, to, tag), on_wire))
        self._transport.ledger.moved("boundary", f"{self._me}-{to}", tx=on_wire.nbytes, rx=0, known="counted")

    def _encoded(self, tensor: Tensor, channel: _Channel, letter: Letter) -> Tensor:
        if letter.plain or not self._coded:
            return tensor.contiguous().view(-1)
        spec = Spec.pack([("boundary", tuple(tensor.shape))], device=str(tensor.device))
        kept = channel.kept.get(spec) or channel.kept.setdefault(spec, self._compressor.init(spec))
        at = replace(self._at, step=letter.minibatch)
        bucket = Bucket(tensor.reshape(-1).to(torch.float32, copy=True), spec)
        done = drive(self._compressor.compress(bucket, kept, at), _nobody)
        wire = done.payload.wire.contiguous().view(-1).view(torch.uint8)
        self._compressor.settle(done, bucket, kept, at)
        return wire.clone() if self._compressor.memory.keeps else wire

    def land(self, before: int) -> None:
        """What was sent in ticks before ``before`` has left."""
        while self._sending and self._sending[0][0] < before:
            self._sending.popleft()[1].wait(self._transport.timeout_s)

    def forget(self) -> None:
        """The pipe is empty, on all ranks: what was left out so far is not sent any more, shapes are told anew."""
        for channel in (*self._out.values(), *self._in.values()):
            channel.kept.clear()
            channel.forms.clear()

    # ── in ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def expect(self, source: int, tag: int, letter: Letter) -> None:
        """A message that will be taken soon: have a place ready for it."""
        if source == self._me:
            return
        channel = self._in.setdefault((source, tag), _Channel())
        channel.asked.append(letter)
        self._post(channel, source, tag)

    def _posts(self, letter: Letter) -> bool:
        return letter.inputs is not None and (letter.plain or self._fixed)

    def _post(self, channel: _Channel, source: int, tag: int) -> None:
        while channel.asked and self._posts(channel.asked[0]) and channel.asked[0].shape in channel.forms:
            letter = channel.asked.popleft()
            channel.posted.append((letter, *self._receive(channel.forms[letter.shape], source, tag, letter)))

    def _receive(self, form: Form, source: int, tag: int, letter: Letter) -> tuple[Pending, Tensor]:
        dtype, shape, nbytes = form
        raw = self._coded and not letter.plain
        device = self._transport.link.wire_device or self._device
        frame = Frame(torch.uint8, (nbytes,)) if raw else Frame(dtype, shape)
        body = room_for([frame])[0] if device.type == "cpu" else \
            torch.empty(frame.shape, dtype=frame.dtype, device=device)  # fmt: skip
        return self._transport.link.near.receive(body.view(-1), source, tag), body

    def take(self, source: int, tag: int, letter: Letter) -> Tensor:
        """The next message, waited for."""
        if source == self._me:
            return self._home[tag].popleft()
        channel = self._in.setdefault((source, tag), _Channel())
        if not channel.posted and not channel.asked:
            self.expect(source, tag, letter)
        head_nbytes = 0
        if channel.posted:
            expected, pending, body = channel.posted.popleft()
        else:
            expected = channel.asked.popleft()
            channel.forms[letter.shape], head_nbytes = self._introduced(source, tag)
            pending, body = self._receive(channel.forms[letter.shape], source, tag, letter)
        assert expected == letter, f"{expected} was expected from rank {source}, {letter} is taken"
        begin = perf_counter()
        pending.wait(self._transport.timeout_s)
        self.waited_s += perf_counter() - begin
        nbytes = head_nbytes + body.nbytes
        self._transport.ledger.moved("boundary", f"{source}-{self._me}", tx=0, rx=nbytes, known="counted")
        self._post(channel, source, tag)
        return self._decoded(body, channel.forms[letter.shape], source, letter)

    def _introduced(self, source: int, tag: int) -> tuple[Form, int]:
        device = self._transport.link.wire_device
        head = torch.empty(HEADER_INTS, dtype=torch.int64, device=device)
        self._transport.link.port.receive(head, source, tag).wait(self._transport.timeout_s)
        return shape_of(head, most_bytes=_MOST_BYTES), head.nbytes

    def _decoded(self, body: Tensor, form: Form, source: int, letter: Letter) -> Tensor:
        if letter.plain or not self._coded:
            return body.to(self._device)
        dtype, shape, _ = form
        spec = Spec.pack([("boundary", shape)], device=str(self._device))
        world = replace(self._at.world, rank=source)
        out = Bucket.zeros(spec)
        at = replace(self._at, step=letter.minibatch, world=world)
        self._compressor.codec.decode_(out, Payload(body.to(self._device)), {}, at)
        return out.flat.view(shape).to(dtype)


def _nobody(ask: object) -> Tensor:
    raise AssertionError("a codec that asks all workers cannot write a boundary; check() refuses it")
