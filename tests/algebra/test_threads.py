"""So many threads for a while."""

from __future__ import annotations

import pytest
import torch

from tightwire.algebra.threads import threads


def test_what_was_before_is_put_back_also_after_an_error() -> None:
    before = torch.get_num_threads()
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    with pytest.raises(ValueError, match="inside"), threads(before + 1):
        raise ValueError("inside")
    assert torch.get_num_threads() == before
