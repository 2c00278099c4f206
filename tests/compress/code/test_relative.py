"""Relative indices: the paper's own example, fillers where a gap is too wide, nothing lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compress.code.drawing import Case, cases, draw
from tightwire.algebra.errors import PayloadError
from tightwire.compress.code.relative import absolute, fillers, relative


def test_the_example_of_the_paper() -> None:
    """Figure 2 with 3 bits: values at 1, 4 and 15; the jump of 11 exceeds 8, so a zero stands between.

    The paper draws the filler at a distance of 8, which is a gap of 7 zeros here; the rest is 3.
    """
    code_N = np.zeros(16, np.uint8)
    code_N[[1, 4, 15]] = 34, 9, 17
    gap_T, code_T = relative(code_N, 3)
    assert (gap_T + 1).tolist() == [2, 3, 8, 3]
    assert code_T.tolist() == [34, 9, 0, 17]


@given(cases, st.integers(1, 12))
def test_nothing_is_lost(case: Case, width: int) -> None:
    gap_T, code_T = relative(case.code_N, width)
    assert len(gap_T) == np.count_nonzero(case.code_N) + fillers(case.code_N, width)
    assert not len(gap_T) or gap_T.max() < 1 << width
    np.testing.assert_array_equal(absolute(gap_T, code_T, len(case.code_N)), case.code_N)


def test_fillers_are_as_many_as_expected() -> None:
    """(1−d)^(2ʳ) / (1 − (1−d)^(2ʳ)) for each that is kept: 0.28 at a density of 9% with 4 bits."""
    kept = np.random.default_rng(0).random(400_000) < 0.09
    each = fillers(kept.astype(np.uint8), 4) / kept.sum()
    assert each == pytest.approx(0.284, abs=0.01)


def test_gaps_that_lead_beyond_are_refused() -> None:
    gap_T, code_T = relative(draw((4, 25), 3, 0.3, seed=0).code_N, 4)
    with pytest.raises(PayloadError, match="beyond the last of 50"):
        absolute(gap_T, code_T, 50)
