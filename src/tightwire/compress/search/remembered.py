"""Tensors that many policies share are made once, while there is room for them; beyond it, all are forgotten."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

_ROOM_NBYTES = {"cpu": 1 << 29, "cuda": 1 << 33}


@dataclass(eq=False)
class Remembered:
    """Named tensors by what they were made for.

    >>> import torch
    >>> made = Remembered(room={"cpu": 100})
    >>> a = made.get("a", lambda: {"w": torch.zeros(20)})
    >>> made.get("a", dict) is a
    True
    >>> b = made.get("b", lambda: {"w": torch.zeros(20)})  # no room for both
    >>> made.get("a", dict), made.get("b", dict) is b
    ({}, True)
    """

    room: Mapping[str, int] = field(default_factory=lambda: _ROOM_NBYTES)
    _made: dict[Hashable, dict[str, Tensor]] = field(default_factory=dict)
    _nbytes: int = 0

    def get(self, key: Hashable, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """What was made for this key, or is made now."""
        if key not in self._made:
            made = make()
            nbytes = sum(tensor.nbytes for tensor in made.values())
            room = min((self.room.get(t.device.type, _ROOM_NBYTES["cpu"]) for t in made.values()), default=self._nbytes)
            if self._nbytes + nbytes > room:
                self._made.clear()
                self._nbytes = 0
            self._made[key] = made
            self._nbytes += nbytes
        return self._made[key]
