"""A trained run that several tests make something of."""

from pathlib import Path

import pytest

from tightwire.engines.config import RunConfig
from tightwire.engines.start import run


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one worker; nobody writes there."""
    folder = tmp_path_factory.mktemp("run")
    run(RunConfig(workers=1, model="mlp", epochs=6, folder=str(folder)))
    return folder
