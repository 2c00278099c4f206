"""How a sequence of symbols begins: with how many kinds of them there are, which may be all there is to say.

varint 0 (nothing), 1 (then: varint symbol), or 2 for more
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tightwire.algebra.errors import PayloadError
from tightwire.compress.code.bits import Reader, varint
from tightwire.compress.code.protocol import Codes
from tightwire.compress.shared_weights import code_type

MORE = 2


def write_kinds(count_A: NDArray[np.int64]) -> bytes:
    """The beginning of a sequence in which symbols stand so often; all of it, where there are no two kinds.

    >>> [list(write_kinds(np.array(count))) for count in ([0, 0, 0], [0, 0, 9], [1, 5, 9])]
    [[0], [1, 2], [2]]
    """
    used = np.flatnonzero(count_A)
    return varint(min(len(used), MORE)) + (varint(int(used[0])) if len(used) == 1 else b"")


def read_kinds(reader: Reader, *, count: int, alphabet: int) -> Codes | None:
    """The ``count`` symbols, where their beginning says all; None where there is more to read."""
    kinds = reader.varint(MORE)
    if (kinds == 0) != (count == 0):
        raise PayloadError(f"{kinds} kinds of symbols where {count} symbols belong")
    if kinds == MORE:
        return None
    return np.full(count, reader.varint(alphabet - 1) if kinds else 0, code_type(alphabet - 1))
