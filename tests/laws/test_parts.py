"""Every implementation, found by looking, through the suite of its axis."""

import pytest

from tightwire.algebra.codec import Codec
from tightwire.algebra.exchange import Exchange
from tightwire.algebra.memory import Memory
from tightwire.algebra.rule import Adopt, Rule, Signal
from tightwire.algebra.schedule import Schedule
from tightwire.algebra.split import Split
from tightwire.codecs.dense import dense
from tightwire.codecs.onebit import onebit
from tightwire.codecs.topk import topk
from tightwire.testing import codecs, exchanges, memories, rules, schedules, splits
from tightwire.testing.found import AXES, found, untested


@pytest.mark.parametrize("axis", AXES)
def test_nothing_is_left_out(axis: str) -> None:
    assert untested(axis) == []


@pytest.mark.parametrize("codec", found("codecs"), ids=str)
def test_codec(codec: Codec) -> None:
    codecs.check_all(codec)


@pytest.mark.parametrize("codec", [dense(), topk(0.2), onebit()], ids=str)
@pytest.mark.parametrize("memory", found("memories"), ids=str)
def test_memory(memory: Memory, codec: Codec) -> None:
    memories.check_all(memory, codec)


@pytest.mark.parametrize("exchange", found("exchanges"), ids=str)
def test_exchange(exchange: Exchange) -> None:
    exchanges.check_all(exchange)


@pytest.mark.parametrize("schedule", found("schedules"), ids=str)
def test_schedule(schedule: Schedule) -> None:
    schedules.check_all(schedule)


@pytest.mark.parametrize("rule", found("rules", Rule), ids=str)
def test_rule(rule: Rule) -> None:
    rules.check_rule(rule)


@pytest.mark.parametrize("signal", found("rules", Signal), ids=str)
def test_signal(signal: Signal) -> None:
    rules.check_signal(signal)


@pytest.mark.parametrize("adopt", found("rules", Adopt), ids=str)
def test_adopt(adopt: Adopt) -> None:
    rules.check_adopt(adopt)


@pytest.mark.parametrize("split", found("splits"), ids=str)
def test_split(split: Split) -> None:
    splits.check_all(split)
