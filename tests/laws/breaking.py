"""What the tests of broken parts share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import Phase, settings
from torch import Tensor

from tightwire.algebra.codec import Ask


@pytest.fixture
def unshrunk() -> Iterator[None]:
    """Counter-examples as they are found: what is broken on purpose need not be small."""
    before = settings.get_current_profile_name()
    settings.register_profile("unshrunk", settings(), phases=(Phase.explicit, Phase.generate))
    settings.load_profile("unshrunk")
    yield
    settings.load_profile(before)


def holds(law: Callable[..., None], *parts: object) -> bool:
    """Whether a law finds nothing wrong."""
    try:
        law(*parts)
    except AssertionError:
        return False
    return True


def nobody(ask: Ask) -> Tensor:
    """Answers codecs that ask nothing."""
    raise AssertionError(f"nobody expected to be asked {ask}")


def name_of(value: object) -> str:
    """A readable test id."""
    match value:
        case set():
            return " ".join(sorted(value))
        case str():
            return value
    return str(getattr(value, "__name__", type(value).__name__))
