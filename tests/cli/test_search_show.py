"""What `tightwire search` shows while it works: that it looks, then a line for each method; nothing where nobody is."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from tightwire.cli.search_show import live
from tightwire.compress.search.problem import Tried


@pytest.mark.parametrize("watched", [True, False])
def test_it_says_that_it_looks_until_it_searches(watched: bool) -> None:
    heard = io.StringIO()
    out = Console(file=heard, force_terminal=watched, width=120)
    with live(out) as watch:
        until = time.monotonic() + 5 * watched
        while "looking" not in heard.getvalue() and time.monotonic() < until:
            time.sleep(0.01)  # it is drawn by a thread
        before = heard.getvalue()
        watch("amc", 1, 5, Tried((0, 1), 0.1, 10.0, -0.1), 0.5)
        watch("uniform", 1, 5, Tried((0, 1), 0.2, 10.0, -0.2), 0.5)
    assert ("looking at the network" in before) == watched
    after = heard.getvalue().removeprefix(before)
    assert all((word in after) == watched for word in ("amc", "uniform", "best -0.1000", "budget 50.0%"))
    if not watched:
        assert not heard.getvalue()


def test_a_search_that_breaks_off_while_it_looks_leaves_no_line() -> None:
    out = Console(file=io.StringIO(), force_terminal=True)
    with pytest.raises(KeyboardInterrupt), live(out):
        raise KeyboardInterrupt
    with live(out):  # were the first still shown, a second would be refused
        pass
