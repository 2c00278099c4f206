"""What the agent remembers: the last transitions of all episodes, drawn from at random."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Replay:
    """A ring of transitions (s, a, r, s', whether more follows) in one table. W numbers a transition."""

    def __init__(self, capacity: int, *, state: int, action: int) -> None:
        self._widths = (state, action, 1, state, 1)
        self.table_RW: NDArray[np.float32] = np.zeros((capacity, sum(self._widths)), np.float32)
        self.held = 0
        self._next = 0

    def add(
        self, state: NDArray[np.float32], action: NDArray[np.float32], reward: float, after: NDArray[np.float32], *,
        more: bool,
    ) -> None:  # fmt: skip
        """One transition, in place of the oldest where there is no room."""
        row = np.concatenate([state, action, [reward], after, [float(more)]])
        self.table_RW[self._next] = row
        self._next = (self._next + 1) % len(self.table_RW)
        self.held = min(self.held + 1, len(self.table_RW))

    def draw(self, batch: int, random: np.random.Generator) -> list[Tensor]:
        """State, action, reward, next state, more; ``batch`` of each."""
        index_B = random.integers(self.held, size=batch)
        return list(torch.from_numpy(self.table_RW[index_B]).split(self._widths, 1))

    def load(self, table_RW: NDArray[np.float32], *, held: int, place: int) -> None:
        """Go on with another's memory."""
        self.table_RW[:] = table_RW
        self.held, self._next = held, place

    @property
    def place(self) -> int:
        """Where the next one goes."""
        return self._next
