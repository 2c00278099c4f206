"""So many threads for a while: work too small for a team of them loses more to waiting than it gains."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def threads(count: int) -> Iterator[None]:
    """PyTorch's operators run on so many threads, until what was before is put back.

    >>> before = torch.get_num_threads()
    >>> with threads(1):
    ...     print(torch.get_num_threads())
    1
    >>> torch.get_num_threads() == before
    True
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
