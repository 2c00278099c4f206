"""What can go wrong in the lab.

TightwireError
├── LabError     the lab cannot be built here, or something in it failed
└── RateError    this is not the rate of a link
"""

from __future__ import annotations

from tightwire.algebra.errors import TightwireError


class LabError(TightwireError, RuntimeError):
    """The lab cannot be built here, or something in it failed."""


class RateError(TightwireError, ValueError):
    """This is not the rate of a link."""
