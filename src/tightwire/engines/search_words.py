"""What `tightwire search` reads from words, and what it takes where nothing was said."""

from __future__ import annotations

from typing import Any

from tightwire.compress.search.budget import Budget
from tightwire.compress.search.build import Prune
from tightwire.engines.config import ConfigError


def default_prune(budget: Budget | None, *, rounds: bool) -> Prune:
    """Time and multiply-adds are saved by channels; parameters and bytes by single weights."""
    if rounds or (budget is not None and budget.kind in ("params", "bytes")):
        return "weights"
    return "channels"


def parse_rounds(text: str | None) -> tuple[float, ...]:
    """Densities, each smaller than the last.

    >>> parse_rounds("0.5,0.35,0.25,0.2"), parse_rounds(None)
    ((0.5, 0.35, 0.25, 0.2), ())
    """
    try:
        found = tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        found = (0.0,)
    if any(not 0 < share <= 1 for share in found) or list(found) != sorted(set(found), reverse=True):
        raise ConfigError(f"rounds {text!r} are not densities that fall, such as 0.5,0.35,0.25,0.2")
    return found


def why(result: dict[str, Any]) -> str:
    """Why a policy was taken although another method has fewer errors; nothing where none has.

    >>> found = {"amc": {"error": 0.0035}, "evolution": {"error": 0.0025}}
    >>> settings = {"samples": 2000, "wish": {"reward": "error"}}
    >>> why({"methods": found, "method": "amc", "error": 0.0035, "settings": settings})
    'the fewer errors of evolution may be chance on 2,000 samples; of what chance cannot tell apart, the policy nearest to the best that needs no search is taken'
    """  # noqa: E501 -- one sentence
    settings = result["settings"]
    if settings.get("latency") or settings["wish"]["reward"] != "error":
        return ""  # times, or prices, decide
    fewer = [name for name, row in result["methods"].items() if row["error"] < result["error"] - 1e-9]
    if not fewer:
        return ""
    return (
        f"the fewer errors of {' and '.join(fewer)} may be chance on {settings['samples']:,} samples; of what chance "
        "cannot tell apart, the policy nearest to the best that needs no search is taken"
    )
