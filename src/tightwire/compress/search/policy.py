"""`policy.json`: what a search decided, layer by layer, and what it saw on the way.

{"tightwire": "policy", "version": 1, "network": {name, digest}, "prune": "channels" | "weights",
 "budget": "flops=0.5", "layers": [{"layer", "ratio", "kept", "of", "pattern", "bits", "k"}, …],
 "error", "cost", "target", "whole", "methods": {…}}

`tightwire shrink --policy` reads the layers; the report reads the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tightwire.compress.errors import CompressError
from tightwire.compress.search.problem import Tried
from tightwire.compress.search.units import Choice, Unit
from tightwire.files import write_json

Pruned: TypeAlias = Literal["channels", "weights"]
VERSION = 1


@dataclass(frozen=True)
class Decision:
    """One unit: the share that stays, in numbers, and how."""

    layer: str
    ratio: float
    kept: int
    of: int
    pattern: str = "fine"
    bits: int | None = None
    k: int = 1


@dataclass(frozen=True)
class Policy:
    """Everything `shrink` needs to know, and the search it came from."""

    model: str
    digest: str  # of the weights the search looked at
    prune: Pruned
    budget: str
    layers: tuple[Decision, ...]
    error: float
    cost: float
    target: float
    whole: float
    seed: int = 0
    method: str = "amc"
    settings: Mapping[str, Any] = field(default_factory=dict)
    methods: Mapping[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        try:
            write_json(path, {"tightwire": "policy", "version": VERSION, **asdict(self)}, indent=1)
        except OSError as error:
            raise CompressError(f"{path} cannot be written ({error.strerror}); name another --out") from None


def decide(units: Sequence[Unit], choices: Sequence[Choice]) -> tuple[Decision, ...]:
    """The choices of all units as decisions."""
    return tuple(
        Decision(unit.name, choice.ratio, choice.kept, unit.whole, choice.pattern, choice.bits, unit.shape.k)
        for unit, choice in zip(units, choices, strict=True)
    )  # fmt: skip


def load_policy(path: Path) -> Policy:
    """Read a policy; refuses what is none."""
    try:
        words: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CompressError(f"{path} cannot be read as a policy ({error}); make one with tightwire search") from None
    if not isinstance(words, dict) or words.pop("tightwire", None) != "policy" or words.pop("version", None) != VERSION:
        raise CompressError(f"{path} is no policy of this version; make one with tightwire search")
    try:
        layers = tuple(Decision(**row) for row in words.pop("layers"))
        policy = Policy(layers=layers, **words)
        return _checked(policy)
    except (KeyError, TypeError, ValueError) as error:
        raise CompressError(f"{path} is a damaged policy ({error}); make it again with tightwire search") from None


def _checked(policy: Policy) -> Policy:
    if policy.prune not in ("channels", "weights") or not policy.layers:
        raise ValueError(f"prune={policy.prune!r} with {len(policy.layers)} layers")
    for row in policy.layers:
        bits = row.bits
        if not 0 < row.ratio <= 1 or not 0 < row.kept <= row.of or not (bits is None or 1 <= bits <= 12):
            raise ValueError(f"{row.layer} keeps {row.kept} of {row.of} with {bits} bits")
    return policy


def trace(tried: Sequence[Tried]) -> list[list[float]]:
    """Reward, error and cost of every evaluation, for the report."""
    return [[round(one.reward, 6), round(one.error, 6), round(one.cost, 3)] for one in tried]
