"""For tests of passes that kernels offer to the codecs: all that a payload is, and a while without them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from tightwire.algebra.codec import Codec, DenseSent, Payload, drive
from tightwire.algebra.tensors import Bucket
from tightwire.algebra.world import At
from tightwire.codecs.passes import Offer, offer, withdraw


def there_and_back(codec: Codec, x: Bucket, at: At) -> list[Tensor]:
    """The payload, what it says it carries, and what it adds to ones."""
    encoded = drive(codec.encode(x, {}, at), lambda ask: ask.tensor)
    assert isinstance(encoded.sent, DenseSent)
    out = Bucket(torch.ones_like(x.flat), x.spec)
    codec.decode_(out, Payload(encoded.payload.wire.clone()), {}, at)
    return [encoded.payload.wire, encoded.sent.flat, out.flat]


@contextmanager
def without(passes: Offer) -> Iterator[None]:
    """Codecs do their work themselves."""
    withdraw(passes)
    try:
        yield
    finally:
        offer(passes)
