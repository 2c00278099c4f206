"""What a prediction is: the time of a step and its parts, bytes, staleness, speed-up; and what all of them share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from tightwire.plan.jobs import Setting
from tightwire.plan.profile import Profile

Bottleneck = Literal["compute", "encode", "exchange", "decode", "update", "wait", "server port", "cores", "stage"]


@dataclass(frozen=True)
class Parts:
    """Where the time of a step goes, as far as nothing else hides it."""

    compute_s: float = 0.0
    encode_s: float = 0.0
    exchange_s: float = 0.0
    decode_s: float = 0.0
    update_s: float = 0.0
    wait_s: float = 0.0

    @property
    def total_s(self) -> float:
        """The step."""
        return sum(float(getattr(self, f.name)) for f in fields(self))

    @property
    def largest(self) -> Bottleneck:
        """The name of the largest part."""
        name: Bottleneck = max(fields(self), key=lambda f: getattr(self, f.name)).name.removesuffix("_s")  # type: ignore[assignment]
        return name


@dataclass(frozen=True)
class Prediction:
    """One recipe on one cluster. Bytes are those of one worker in one step, as a ledger counts them, on average."""

    recipe: str
    workers: int
    step_s: float
    parts: Parts
    bottleneck: Bottleneck
    tx_nbytes: float
    rx_nbytes: float
    staleness: float
    batch: int  # samples of all workers in one step
    serial_s: float  # a step of one worker alone
    serial_batch: int

    @property
    def samples_per_s(self) -> float:
        """Samples of all workers in a second."""
        return self.batch / self.step_s

    @property
    def speedup(self) -> float:
        """Over one worker alone that trains with its own batch."""
        return self.samples_per_s * self.serial_s / self.serial_batch

    @property
    def efficiency(self) -> float:
        """Speed-up for each worker."""
        return self.speedup / self.workers


def serial_step_s(profile: Profile) -> float:
    """A step of one worker on a device of its own."""
    return profile.compute_s + profile.update_s + profile.overheads.step_s


def slowness(setting: Setting, active: int | None = None) -> float:
    """How much slower the workers of a machine are when all of them compute, or so many of all."""
    if setting.cluster.cores is None:
        return 1.0
    here = min(setting.cluster.sharing, setting.workers)
    return setting.profile.slowed(here if active is None else max(1, min(here, active)))
