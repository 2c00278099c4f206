"""Every recipe learns digits with nothing but defaults, whatever its workers see.

The short version takes a third of the epochs on sorted shards, the hard case: whoever does not communicate stays near
0.3 there. The long one (`make slow`) takes all of them on both, and so does `benchmarks.digits`, in real processes.
"""

from pathlib import Path
from typing import Literal

import pytest

from tightwire.engines.config import RunConfig
from tightwire.engines.inside import run_inside
from tightwire.engines.outcome import read_outcomes
from tightwire.engines.start import judge, prepare
from tightwire.recipes.catalogue import CATALOGUE

Shards = Literal["shuffled", "sorted"]
SHORT = [("sorted", 10.0, 0.65)]
LONG = [("shuffled", 30.0, 0.95), ("sorted", 30.0, 0.80)]


def accuracy(folder: Path, name: str, shards: Shards, epochs: float) -> float:
    """What a default run reaches, on the in-process link: the same weights as real processes, sooner."""
    workers = CATALOGUE[name].workers
    config = prepare(RunConfig(recipe=name, shards=shards, epochs=epochs, workers=workers, folder=str(folder)))
    run_inside(config, resume=False)
    return float(judge(config, read_outcomes(folder))["test_accuracy"])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "shards" in metafunc.fixturenames:
        metafunc.parametrize(("shards", "epochs", "good"), LONG if metafunc.config.getoption("--slow") else SHORT)


@pytest.mark.parametrize("name", CATALOGUE)
def test_defaults_learn(tmp_path: Path, name: str, shards: Shards, epochs: float, good: float) -> None:
    reached = accuracy(tmp_path, name, shards, epochs)
    if shards == "sorted" and CATALOGUE[name].fails_on_sorted:
        assert reached < good, "its page says that it fails here"
    else:
        assert reached >= good
