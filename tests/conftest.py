import pytest
import torch
from hypothesis import settings

settings.register_profile("ci", derandomize=True, max_examples=25, deadline=None, database=None)
settings.register_profile("slow", max_examples=400, deadline=None, database=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="long versions: more examples, larger worlds")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("slow" if config.getoption("--slow") else "ci")
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)
