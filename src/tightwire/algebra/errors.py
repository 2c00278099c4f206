"""Every error tightwire raises on purpose.

    TightwireError
    ├── RecipeError        the parts of a recipe do not fit together
    ├── JoinError          this model, optimizer or world cannot be joined
    ├── UsageError         the wire was called in an order that has no meaning
    ├── NotFiniteError     NaN or infinity in a tensor that is about to be remembered
    ├── PayloadError       bytes that are not a valid payload
    │   ├── UnknownMemory  a call names shared memory that its server has not open
    │   ├── UnknownMachine nothing of that name is kept at a server
    │   └── AlreadyOpen    a machine of that name is kept at a server already
    ├── CheckpointError    a checkpoint is missing, damaged or of another model
    ├── AccessError        a server between machines, without keys or with the wrong ones
    └── LinkError          the exchange with other workers failed
        ├── PeerTimeout    a peer was waited for longer than allowed; names it
        ├── PeerLost       a peer is gone; names it
        └── Deadlock       all workers of an in-process world wait for each other

A message names the values that clashed and what to do instead.
"""


class TightwireError(Exception):
    """Root of the tree: ``except TightwireError`` catches what a user can cause or cure."""


class RecipeError(TightwireError, ValueError):
    """The parts of a recipe do not fit together."""


class JoinError(TightwireError, ValueError):
    """This model, optimizer or world cannot be joined."""


class UsageError(TightwireError, RuntimeError):
    """The wire was called in an order that has no meaning."""


class NotFiniteError(TightwireError, ValueError):
    """NaN or infinity in a tensor that is about to be remembered."""


class PayloadError(TightwireError, ValueError):
    """Bytes that are not a valid payload; ``reason`` is the word under which a server counts it."""

    def __init__(self, text: str, reason: str = "malformed") -> None:
        super().__init__(text)
        self.reason = reason


class UnknownMemory(PayloadError):  # noqa: N818
    """A call names shared memory that its server has not open; nothing was done."""


class CheckpointError(TightwireError, RuntimeError):
    """A checkpoint is missing, damaged or of another model."""


class UnknownMachine(PayloadError):  # noqa: N818 -- reads as what happened
    """Nothing of that name is kept at a server."""


class AlreadyOpen(PayloadError):  # noqa: N818
    """A machine of that name is kept at a server already."""


class AccessError(TightwireError, ValueError):
    """A server between machines needs keys, and these are missing, unreadable or wrong."""


class LinkError(TightwireError, RuntimeError):
    """The exchange with other workers failed."""


class PeerTimeout(LinkError):  # noqa: N818 -- reads as what happened
    """A peer was waited for longer than allowed."""


class PeerLost(LinkError):  # noqa: N818
    """A peer is gone."""


class Deadlock(LinkError):  # noqa: N818
    """All workers of an in-process world wait for each other."""
