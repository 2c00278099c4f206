"""How large messages are copied in this process: by numpy, unless it was told of a faster way.

Links know no kernels. A process that we start ourselves is told of one (`engines.quick`), and loads it with the first
message that is worth it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Copy = Callable[[npt.NDArray[np.uint8], npt.NDArray[np.uint8]], None]
WORTH_NBYTES = 16 << 20
_told: list[Callable[[], Copy | None]] = []


def copy_large_with(load: Callable[[], Copy | None]) -> None:
    """Have large messages copied by what ``load`` returns, if it returns anything."""
    _told[:] = [load]


def copy_for(nbytes: int) -> Copy:
    """How to copy the pieces of a message of this size."""
    if nbytes >= WORTH_NBYTES and _told:
        loaded = _told[0]()
        if loaded is not None:
            return loaded
    return np.copyto
