"""What a run can be told, and what it refuses."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightwire.engines.config import ConfigError, RunConfig, parse_recipe, show_recipe


def test_a_configuration_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    config = RunConfig(recipe="dgc", params={"density": 0.01}, lab="1gbit", steps=5, folder=str(tmp_path / "x"))
    config.save()
    assert RunConfig.load(tmp_path / "x") == config


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"workers": 0}, "workers=0"),
        ({"batch": 0}, "batch=0"),
        ({"epochs": -1.0}, "epochs=-1.0"),
        ({"epochs": 0.0}, "epochs=0.0"),
        ({"steps": 0}, "steps=0"),
        ({"epochs": 1.0, "steps": 5}, "give one of them"),
        ({"lab": "1gbit", "link": "1gbit"}, "give one of them"),
        ({"timeout_s": 0.0}, "timeout=0.0"),
        ({"save_every": 0}, "save-every=0"),
    ],
)
def test_impossible_runs_are_refused(values: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        RunConfig(**values)  # type: ignore[arg-type]


def test_a_folder_that_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a run"):
        RunConfig.load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        RunConfig.load(tmp_path)
    (tmp_path / "config.json").write_text('{"colour": 1}')
    with pytest.raises(ConfigError, match="not of this version"):
        RunConfig.load(tmp_path)


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        RunConfig(folder=str(tmp_path / "file" / "run")).save()


names = st.from_regex(r"[a-z]+(-[a-z]+)*", fullmatch=True)
values = st.integers(-99, 99) | st.floats(0.001, 0.9) | st.sampled_from(["off", "tiers", "weights"])


@given(names, st.dictionaries(st.from_regex(r"[a-z_]+", fullmatch=True), values, max_size=3))
def test_recipes_with_parameters_read_as_they_are_written(name: str, params: dict[str, object]) -> None:
    assert parse_recipe(show_recipe(name, params)) == (name, params)


def test_a_parameter_without_a_value_is_refused() -> None:
    with pytest.raises(ConfigError, match="key=value"):
        parse_recipe("dgc:density")
