"""The error of a data set that is missing, damaged or not what its name says; and checks of options that raise it."""

from __future__ import annotations

from collections.abc import Sequence


class DataError(ValueError):
    """Names the file or option and what to do about it, in one sentence."""


def at_least_one(**options: object) -> None:
    """Refuse an option that is not a whole number of at least 1.

    >>> at_least_one(columns=20, bptt=0)
    Traceback (most recent call last):
    tightwire.data.errors.DataError: bptt=0 must be a whole number of at least 1
    """
    for name, value in options.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise DataError(f"{name}={value!r} must be a whole number of at least 1")


def one_of(option: str, value: object, allowed: Sequence[str]) -> None:
    """Refuse a value that is not among those an option has."""
    if value not in allowed:
        raise DataError(f"{option}={value!r} is not known; choose from {', '.join(allowed)}")
