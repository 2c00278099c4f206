"""Who takes part, and where in the run we are.

`World` is one worker's view of the membership; `At` is the moment at which a part is asked to act.
Both are plain values, so a part that is given the same `At` acts the same on every machine.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from tightwire.algebra.errors import UsageError

_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class World:
    """One worker's view of the membership.

    ``generation`` grows whenever the membership changes; ``hosts[r]`` is the machine of rank r
    (empty: every rank is a machine of its own).

    >>> World(rank=1, size=4, hosts=(0, 0, 1, 1)).members_of((0, 0, 1, 1))
    (0, 1)
    """

    rank: int = 0
    size: int = 1
    generation: int = 0
    hosts: tuple[int, ...] = ()

    def members_of(self, labels: tuple[int, ...]) -> tuple[int, ...]:
        """The ranks that carry the same label as this one, in rank order."""
        return tuple(r for r, label in enumerate(labels) if label == labels[self.rank])


Grouping = Callable[[World], tuple[int, ...]]
"""Gives every rank of a world a group label: what ``tiers(…, by=…)`` takes."""


def host(world: World) -> tuple[int, ...]:
    """Group by machine."""
    return world.hosts or tuple(range(world.size))


@dataclass(frozen=True)
class GroupsOf:
    """Group ``size`` consecutive ranks."""

    size: int

    def __call__(self, world: World) -> tuple[int, ...]:
        """Every rank's group."""
        return tuple(rank // self.size for rank in range(world.size))


def groups_of(size: int) -> GroupsOf:
    """Group ``size`` consecutive ranks.

    >>> groups_of(2)(World(rank=0, size=5))
    (0, 0, 1, 1, 2)
    """
    return GroupsOf(size)


@dataclass(frozen=True)
class InGroups:
    """Make ``groups`` groups of consecutive ranks, about equal in size."""

    groups: int

    def __call__(self, world: World) -> tuple[int, ...]:
        """Every rank's group."""
        return tuple(rank * self.groups // world.size for rank in range(world.size))


def in_groups(groups: int) -> InGroups:
    """Make ``groups`` groups of consecutive ranks.

    >>> in_groups(2)(World(rank=0, size=5))
    (0, 0, 0, 1, 1)
    """
    return InGroups(groups)


@dataclass(frozen=True)
class At:
    """The moment of an action: step, epoch, learning rate, and the world that takes part in it.

    ``key`` derives random seeds by counting instead of by carrying generator state, so nothing has to be
    saved for it and every rank can name any other rank's numbers.

    >>> a = At(step=3); a.key(shared=True) == At(step=3, world=World(rank=1, size=2)).key(shared=True)
    True
    >>> a.key(shared=False) == At(step=3, world=World(rank=1, size=2)).key(shared=False)
    False
    """

    step: int = 0
    epochs: float | None = 0.0  # passed so far, with the fraction of the one under way; None: nobody counts them
    lr: float = 0.0
    world: World = World()
    seed: int = 0

    def passed(self) -> float:
        """Epochs passed; for parts that change with them."""
        if self.epochs is None:
            raise UsageError(
                "the recipe changes with epochs, and nobody counts them: iterate over wire.shard(loader), or set "
                "wire.epochs"
            )
        return self.epochs

    def inside(self, world: World) -> At:
        """The same moment, seen by a smaller world (a tier of it)."""
        return replace(self, world=world)

    def key(self, *, shared: bool, salt: str = "") -> int:
        """A 63-bit seed for this step: the same on all ranks if ``shared``, else this rank's own."""
        rank = 0 if shared else self.world.rank + 1
        mixed = _mix(self.seed & _MASK)
        for part in (self.step, rank, zlib.crc32(salt.encode())):
            mixed = _mix(mixed ^ part)
        return mixed >> 1

    def generator(self, device: torch.device, *, shared: bool, salt: str = "") -> torch.Generator:
        """A generator seeded with ``key``."""
        return torch.Generator(device).manual_seed(self.key(shared=shared, salt=salt))


START = At()
"""The first moment of a world of one."""


def _mix(x: int) -> int:
    """Splitmix64: consecutive counters give unrelated numbers."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)
