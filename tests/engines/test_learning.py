"""Every recipe learns digits with nothing but defaults, whatever its workers see."""

from pathlib import Path
from typing import Literal

import pytest

from tightwire.engines.config import RunConfig
from tightwire.engines.inside import run_inside
from tightwire.engines.outcome import read_outcomes
from tightwire.engines.start import judge, prepare
from tightwire.recipes.catalogue import CATALOGUE

GOOD = {"shuffled": 0.95, "sorted": 0.80}


def accuracy(folder: Path, name: str, shards: Literal["shuffled", "sorted"]) -> float:
    """What a default run reaches, on the in-process link: the same weights as real processes, sooner."""
    config = prepare(RunConfig(recipe=name, shards=shards, workers=CATALOGUE[name].workers, folder=str(folder)))
    run_inside(config, resume=False)
    return float(judge(config, read_outcomes(folder))["test_accuracy"])


@pytest.mark.parametrize("shards", GOOD)
@pytest.mark.parametrize("name", CATALOGUE)
def test_defaults_learn(tmp_path: Path, name: str, shards: Literal["shuffled", "sorted"]) -> None:
    reached = accuracy(tmp_path, name, shards)
    if shards == "sorted" and CATALOGUE[name].fails_on_sorted:
        assert reached < GOOD[shards], "its page says that it fails here"
    else:
        assert reached >= GOOD[shards]
