"""Errors of compression.

TightwireError
└── CompressError        weights, masks or settings that cannot be compressed
    └── ArtifactError    a .twz file that is damaged, hostile, or of another version or network
"""

from tightwire.algebra.errors import TightwireError


class CompressError(TightwireError, ValueError):
    """Weights, masks or settings that cannot be compressed."""


class ArtifactError(CompressError):
    """A ``.twz`` file that is damaged, hostile, or of another version or network."""
