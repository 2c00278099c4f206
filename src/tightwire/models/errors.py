"""The error of a network that does not exist or does not fit its data; and checks that raise it."""

from __future__ import annotations

from collections.abc import Sequence

_KINDS: dict[type, tuple[str, tuple[type, ...]]] = {
    float: ("a number", (int, float)),
    int: ("a whole number", (int,)),
    bool: ("true or false", (bool,)),
    str: ("a word", (str,)),
    tuple: ("a list", (tuple, list)),
}


class ModelError(ValueError):
    """Names the values that do not fit and what to do about it, in one sentence."""


def one_of(option: str, value: object, allowed: Sequence[str]) -> None:
    """Refuse a value that is not among those an option has."""
    if value not in allowed:
        raise ModelError(f"{option}={value!r} is not known; choose from {', '.join(allowed)}")


def of_kind(option: str, value: object, usual: object) -> None:
    """Refuse a value of another kind than the usual one; a whole number is a number, too."""
    words, allowed = _KINDS[type(usual)]
    if not isinstance(value, allowed) or isinstance(value, bool) != isinstance(usual, bool):
        raise ModelError(f"{option}={value!r} must be {words}, such as {usual!r}")


def image(name: str, inputs: tuple[int, ...], *, least: int) -> tuple[int, int, int]:
    """Channels, height and width of images that are large enough.

    >>> image("lenet-5", (784,), least=16)
    Traceback (most recent call last):
    tightwire.models.errors.ModelError: lenet-5 takes images (channels, height, width), not inputs of shape (784,); \
use data with images (digits: shape="image"), or mlp
    """
    if len(inputs) != 3:
        raise ModelError(
            f"{name} takes images (channels, height, width), not inputs of shape {inputs}; use data with images "
            '(digits: shape="image"), or mlp'
        )
    channels, height, width = inputs
    if min(height, width) < least:
        raise ModelError(f"{name} takes images of at least {least}×{least}, not {height}×{width}; use cnn or mlp")
    return channels, height, width
