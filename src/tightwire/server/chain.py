"""What the servers of a chain say to each other, to whoever decides on views, and to workers that came to a wrong one.

    view 7    head ──Forward──▶ middle ──Forward──▶ tail        an entry: one worker's request, at one place
                   ◀───Ack────         ◀───Ack────              everything up to a place is held by all behind
              views ◀──Beat── every server                      who lives, and who has caught up
              views ──View──▶ every server that knows an older one
              views ───Go───▶ every member, once the head has said that it knows the view

Nothing is said twice that matters: every message may be lost, late, doubled or out of order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from tightwire.server.once import Request, Session


class Member(NamedTuple):
    """One life of one server: a server that lost what it knew comes back with a larger ``life``."""

    server: str
    life: int


class View(NamedTuple):
    """Who keeps a shard, head first. A member's successor has a beginning of what the member has."""

    shard: str
    number: int
    chain: tuple[Member, ...]


class Forward(NamedTuple):
    """Apply this entry after all before it."""

    view: int
    place: int
    request: Request


class Ack(NamedTuple):
    """Everything up to ``place`` is held from the sender to the tail."""

    view: int
    place: int


class Have(NamedTuple):
    """A member at the beginning of a view, to the one before it: how far it is; -1 if it has nothing at all."""

    view: int
    place: int


class Sync(NamedTuple):
    """What a successor lacks: entries after its own, or the whole state at ``place``."""

    view: int
    place: int
    entries: tuple[Request, ...] = ()
    state: Any = None


class Beat(NamedTuple):
    """A server lives, knows this view, knows (or not yet) that it stands, and has all that was ever acknowledged."""

    shard: str
    member: Member
    view: int
    stands: bool
    caught_up: bool


class Go(NamedTuple):
    """The view stands. Until then its members do nothing in it."""

    shard: str
    view: int


class Buried(NamedTuple):
    """This life of a server was left out of a chain, and will never be in one again."""

    shard: str
    member: Member


class Where(NamedTuple):
    """A worker wants the view of a shard."""

    worker: int
    shard: str


class Lost(NamedTuple):
    """A shard, to a worker that asks where it is: nobody has it any more, or ever will."""

    shard: str


class Elsewhere(NamedTuple):
    """This server is not the head, as far as it knows; ask for the view."""

    worker: int
    view: int


class Later(NamedTuple):
    """No reply yet; the request is here, so it is enough to ask again for its reply. The shard waits for these."""

    worker: int
    awaited: tuple[int, ...]


class Letter(NamedTuple):
    """A message between servers, or to the views, with its sender."""

    sender: str
    message: Any


class Told(NamedTuple):
    """What the receiver of a letter says to its sender at once."""

    messages: tuple[Any, ...] = ()


class Copied(NamedTuple):
    """A copy of a machine and its sessions: the ``state`` of a `Sync`, and what the first server is given."""

    sessions: tuple[tuple[int, Session], ...]
    data: dict[str, Any]
    tensors: tuple[Tensor, ...]


class Seat(NamedTuple):
    """A server's place in the chain of a shard: in which room, under which name, where the others are.

    The first server is given the machine; all others come to it by catching up.
    """

    room: str
    server: str
    places: tuple[tuple[str, str], ...]
    copied: Any = None


class Joins(NamedTuple):
    """Another server offers itself; ``where`` it listens is its name."""

    where: str


class Departs(NamedTuple):
    """The sender of this letter will end: others should have what it keeps."""


class Over(NamedTuple):
    """The run has ended: nothing needs to be kept."""
