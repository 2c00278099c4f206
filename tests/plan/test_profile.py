"""Profiles: made, kept, and read between the lines."""

from pathlib import Path

import pytest

from tightwire.codecs.dense import dense
from tightwire.codecs.topk import topk
from tightwire.memories.nothing import nothing
from tightwire.memories.residual import residual
from tightwire.plan.errors import PlanError
from tightwire.plan.made import made_profile
from tightwire.plan.profile import Asked, Coding, Overheads, Profile, coding_key

COST = Coding(1.0, 2.0, 3.0, 1000, 60, 66, (Asked("sum", 8),))


def some() -> Profile:
    made = made_profile({"a": (10, 10), "b": (5,)}, forward_s=1.0, backward_s=2.0, batch=4)
    key = coding_key(residual(), topk(0.01))
    return made.but(codings={key: COST}, slowdown={1: 1.0, 4: 2.5}, batches={16: 6.0}, overheads=Overheads(job_s=0.5))


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    some().save(tmp_path / "p.json")
    assert Profile.load(tmp_path / "p.json") == some()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 99}', '{"version": 1, "model": "x"}'])
def test_what_is_no_profile_says_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(PlanError):
        Profile.load(tmp_path / "p.json")
    with pytest.raises(PlanError, match="cannot be read"):
        Profile.load(tmp_path / "nowhere.json")


def test_slowdown_and_batches_between_what_was_measured() -> None:
    profile = some()
    assert [profile.slowed(n) for n in (1, 2, 3, 4, 8)] == [1.0, 1.5, 2.0, 2.5, 5.0]
    assert [profile.compute_of(n) for n in (2, 4, 10, 16, 28)] == [1.5, 3.0, 4.5, 6.0, 9.0]


def test_the_same_codec_with_other_numbers_costs_as_much_but_has_its_own_bytes() -> None:
    profile = some()
    assert profile.coding(residual(), topk(0.01)) == COST
    alike = profile.coding(residual(), topk(0.001))
    assert (alike.encode_s, alike.capacity_nbytes) == (1.0, 0)
    assert profile.coding(nothing(), dense()).encode_s == 0
    with pytest.raises(PlanError, match="holds no cost of TopK behind Nothing"):
        profile.coding(nothing(), topk(0.01))
