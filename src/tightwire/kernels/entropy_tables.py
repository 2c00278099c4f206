"""Numbers that every mixing coder shares. They are whole, so that all machines compute the same bits.

    stretch(p) = ln(p/(1−p))  in 1/256;   squash(x) = 1/(1+e^−x)  in 1/65536

No entry lies so near to a half that another library's exponential could round it the other way (a test measures it).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FAR = 3071  # the largest argument of squash, 12 in 1/256
LEAST = 16  # no probability is less than this in 65536
SEEN = 250  # a context that was seen so often learns no slower
FREE, EACH = 1 << 16, 256  # bits that any bytes may stand for, and those for each byte: bounds a decoder's time
SIG_INPUTS, VALUE_INPUTS = 6, 6
SIG_SETS = 6


def exact_stretch() -> NDArray[np.float64]:
    """256·ln(p/(1−p)) for p = (i + ½)/4096, before rounding."""
    p = (np.arange(4096) + 0.5) / 4096
    return np.asarray(256 * np.log(p / (1 - p)), np.float64)


def exact_squash() -> NDArray[np.float64]:
    """65536/(1+e^−x) for x from −FAR to FAR in 1/256, before rounding."""
    return np.asarray(65536 / (1 + np.exp(-np.arange(-FAR, FAR + 1) / 256)), np.float64)


STRETCH: NDArray[np.int64] = np.rint(exact_stretch()).astype(np.int64)
SQUASH: NDArray[np.int64] = np.clip(np.rint(exact_squash()), LEAST, 65536 - LEAST).astype(np.int64)
RATE: NDArray[np.int64] = 65536 // (np.arange(SEEN + 1, dtype=np.int64) + 2)
SIG_START = 72_090 // SIG_INPUTS  # weights begin equal, and add to 1.1 in 1/65536
VALUE_START = 72_090 // VALUE_INPUTS
COST: NDArray[np.int64] = np.rint(-65536 * np.log2((np.arange(4096) + 0.5) / 4096)).astype(np.int64)
"""Bits in 1/65536 that coding something of probability (i + ½)/4096 takes; for reports only."""
