"""The timetable is the picture that the documentation draws."""

from __future__ import annotations

import re
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra import split as algebra
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.split import Split, Work, whole
from tightwire.splits import flush, pipedream, pipedream_2bw
from tightwire.splits import layerwise as layerwise_
from tightwire.splits.flush import gpipe, one_forward_one_backward
from tightwire.splits.layerwise import Layerwise, layerwise
from tightwire.splits.pipedream import PipeDream
from tightwire.splits.pipedream_2bw import pipedream_2bw as two_versions
from tightwire.splits.timetable import alive, drawn, idle

STAIRCASE = """\
F0    F1    F2    F3    B0    B1    B2    B3
      F0    F1    F2B0  F3B1  B2    B3
            F0B0  F1B1  F2B2  F3B3
"""


def cell(work: Work) -> str:
    forward = "" if work.forward is None else f"F{work.forward}"
    return forward if work.backward is None else f"{forward}B{work.backward}"


def by_tick(split: Split, minibatches: int, width: int = 6) -> str:
    columns = list(split.ticks(minibatches))
    rows = ("".join(cell(works[stage]).ljust(width) for works in columns).rstrip() for stage in range(split.stages))
    return "\n".join(rows) + "\n"


def test_minibatches_climb_the_staircase_and_come_down_again() -> None:
    assert by_tick(Layerwise(3), 4) == STAIRCASE


@pytest.mark.parametrize(("module", "stages"), [(layerwise_, 3), (algebra, 2)])
def test_the_documentation_draws_the_timetable(module: ModuleType, stages: int) -> None:
    lines = (module.__doc__ or "").splitlines()
    header = next(i for i, line in enumerate(lines) if re.search(r"tick +0 +1", line))
    places = [match.start() for match in re.compile(r"\d+").finditer(lines[header], lines[header].index("tick"))]
    assert len(places) >= 4
    for stage, line in enumerate(lines[header + 1 : header + 1 + stages]):
        wanted = ""
        for tick, place in enumerate(places):
            wanted = wanted.ljust(place) + cell(Layerwise(stages).work(stage, tick))
        assert f"stage {stage} " in line
        assert line[places[0] :] == wanted[places[0] :].rstrip()


PICTURES = [
    (pipedream, "n = 3", PipeDream(3), 9),
    (pipedream_2bw, "n = 2", two_versions(2, microbatches=2), 9),
    (flush, "GPipe", gpipe(2), 4),
    (flush, "1F1B", one_forward_one_backward(2), 4),
]


@pytest.mark.parametrize(("module", "title", "split", "minibatches"), PICTURES, ids=lambda value: str(value)[:30])
def test_the_documentation_draws_what_is_executed(
    module: ModuleType, title: str, split: Split, minibatches: int
) -> None:
    lines = (module.__doc__ or "").splitlines()
    header = next(i for i, line in enumerate(lines) if title in line and "unit" in line)
    left = lines[header].index("0 ")
    right = left + 4 * len(re.findall(r"\d+", lines[header][left:]))
    wanted = [line[: right - left].rstrip() for line in drawn(split, minibatches).splitlines()]
    assert [line[left:] for line in lines[header + 1 : header + 1 + split.stages]] == wanted


@given(st.integers(1, 5), st.integers(1, 9))
def test_a_flush_costs_its_bubble(stages: int, microbatches: int) -> None:
    for make in (gpipe, one_forward_one_backward):
        split = make(stages, microbatches=microbatches)
        assert idle(split, microbatches) == pytest.approx((stages - 1) / (microbatches + stages - 1))
    assert alive(gpipe(stages, microbatches=microbatches), microbatches) == [microbatches] * stages
    few = one_forward_one_backward(stages, microbatches=microbatches)
    assert alive(few, microbatches) == [min(microbatches, stages - stage) for stage in range(stages)]


@given(st.integers(1, 6), st.integers(8, 20))
def test_pipedream_keeps_as_many_minibatches_as_stages_follow(stages: int, minibatches: int) -> None:
    assert alive(PipeDream(stages), minibatches) == [stages - stage for stage in range(stages)]


def test_two_versions_need_batches_that_fill_the_pipe() -> None:
    with pytest.raises(RecipeError, match="microbatches=3 or more"):
        two_versions(3, microbatches=2)


def test_only_layerwise_deals_out_the_last_layer() -> None:
    with pytest.raises(RecipeError, match="only layerwise deals the last layer out"):
        PipeDream(2, algebra.Cut(wide=2))


@pytest.mark.parametrize(("stages", "wide"), [(1, 2), (4, 2)])
def test_too_few_workers_for_a_wide_layer_are_refused(stages: int, wide: int) -> None:
    with pytest.raises(RecipeError, match=f"stages={stages}, wide={wide}"):
        Layerwise(stages, algebra.Cut(wide=wide))


def test_one_stage_is_one_minibatch_after_the_other() -> None:
    assert by_tick(Layerwise(1), 3) == by_tick(whole, 3) == "F0B0  F1B1  F2B2\n"


@given(st.integers(1, 7), st.integers(20, 30))
def test_a_stage_updates_its_weights_so_often_between_forward_and_backward(stages: int, minibatch: int) -> None:
    split = Layerwise(stages)
    for stage in range(stages):
        works = [split.work(stage, tick) for tick in range(100)]
        there = next(tick for tick, work in enumerate(works) if work.forward == minibatch)
        back = next(tick for tick, work in enumerate(works) if work.backward == minibatch)
        updates = sum(work.backward is not None for work in works[there:back])
        assert updates == split.delay(stage) == 2 * (stages - 1 - stage)


@pytest.mark.parametrize(("stages", "delays"), [(1, [0]), (2, [2, 0]), (4, [6, 4, 2, 0])])
def test_earlier_stages_wait_longer(stages: int, delays: list[int]) -> None:
    assert [Layerwise(stages).delay(stage) for stage in range(stages)] == delays


@given(st.integers(1, 6), st.integers(1, 20))
def test_a_stream_ends_with_its_last_backward_pass(stages: int, minibatches: int) -> None:
    columns = list(Layerwise(stages).ticks(minibatches))
    assert len(columns) == minibatches + 2 * (stages - 1)
    assert columns[-1][0].backward == minibatches - 1
    assert all(work.forward is None for work in columns[-1][1:])


@given(st.integers(1, 6), st.integers(1, 20))
def test_so_many_activations_are_alive_at_a_stage(stages: int, minibatches: int) -> None:
    split = Layerwise(stages)
    for stage in range(stages):
        alive = most = 0
        for works in split.ticks(minibatches):
            alive += works[stage].forward is not None
            most = max(most, alive)
            alive -= works[stage].backward is not None
        assert alive == 0
        assert most == min(minibatches, 2 * (stages - 1 - stage) + 1)


@pytest.mark.parametrize("stages", [0, -1])
def test_less_than_one_stage_is_refused(stages: int) -> None:
    with pytest.raises(RecipeError, match=f"stages={stages}"):
        layerwise(stages)


@pytest.mark.parametrize("cuts", [(), (1,), (1, 2, 3)])
def test_a_wrong_number_of_cuts_is_refused(cuts: tuple[int, ...]) -> None:
    with pytest.raises(RecipeError, match="3 stages have 2 cuts"):
        layerwise(3, cuts=cuts)
