"""What a run may be told beside its recipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tightwire.links.access import Access
from tightwire.links.shaped import Pace
from tightwire.telemetry.sinks import Silence, Sink


@dataclass(frozen=True)
class Settings:
    """Settings of one worker, the same on all of them.

    ``unused`` says how parameters without a gradient are treated: ``watch`` looks at the first step and agrees in every
    step only if some rank had one there; ``agree`` always does; ``zero`` never does, and gives them zero gradients.
    ``pace`` slows the link down in user space, as if the wire were narrower than it is. ``access`` says where parameter
    servers are and what opens them; without it, the environment does (`links.access`).
    """

    seed: int = 0
    exchange_timeout_s: float = 60.0
    step_timeout_s: float = 600.0
    unused: Literal["watch", "agree", "zero"] = "watch"
    pace: Pace | None = None
    access: Access | None = None
    events: Sink = field(default_factory=Silence)
