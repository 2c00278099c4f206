"""Names without torch, options by reader, and data sets of your own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import TensorDataset

from tightwire.data import DATA, DataError, describe, load

OWN = """
import torch
from torch.utils.data import TensorDataset
from tightwire.data import Data

x, y = torch.rand(6, 3), torch.tensor([0, 1, 2, 0, 1, 4])
pairs = lambda: ((x, y), (x[:2], y[:2]))
datasets = lambda: (TensorDataset(x, y), [(x[0], 1), (x[1], 3)])
whole = lambda size=3: Data("mine", TensorDataset(x, y), TensorDataset(x, y), (size,), 7)
tokens = torch.arange(12).reshape(3, 4)
language = lambda: ((tokens, tokens + 1), (tokens, tokens + 1))
uneven = lambda: ((x, y[:-1]), (x, y))
single = lambda: (x, y, x)
empty = lambda: ((x, y), (x[:0], y[:0]))
floats = lambda: ((x, x[:, 0]), (x, x[:, 0]))
images = lambda: ((tokens.byte(), y[:3]), (tokens.byte(), y[:3]))
stream = lambda: (iter([1]), iter([2]))
bare = lambda: ([1, 2], [3])
number = 5
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_data.py").write_text(OWN)
    (tmp_path / "broken_data.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_data", raising=False)
    return "own_data"


def test_names_and_help_need_no_torch() -> None:
    code = (
        "import sys, tightwire.data, tightwire.models; from tightwire.data.names import DATA; "
        "from tightwire.models.names import MODELS; assert DATA and MODELS; "
        "assert not {'torch', 'numpy', 'sklearn'} & set(sys.modules), 'too much was imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_name_has_its_reader() -> None:
    for name, entry in DATA.items():
        assert name == entry.name
        module, function = entry.reader.split(":")
        __import__(module)
        assert callable(getattr(sys.modules[module], function))
        assert describe(name) is entry and entry.what and entry.where


def test_unknown_names_and_options_are_refused_with_those_there_are() -> None:
    with pytest.raises(DataError, match="there is no data set 'imagenet'; there are digits, mnist"):
        load("imagenet")
    with pytest.raises(DataError, match="digits has no option 'states'; it has shape, seed"):
        load("digits", states=3)
    with pytest.raises(DataError, match="mnist has no option 'seed'; it has none"):
        load("mnist", ".", seed=1)


def test_pairs_of_tensors_become_data(own: str) -> None:
    data = load(f"{own}:pairs")
    assert (data.inputs, data.classes, data.task, len(data.train)) == ((3,), 5, "classify", 6)  # type: ignore[arg-type]
    assert data.train[5][1] == 4


def test_data_sets_become_data(own: str) -> None:
    data = load(f"{own}:datasets")
    assert isinstance(data.train, TensorDataset)
    assert (data.inputs, data.classes) == ((3,), 5)


def test_data_stays_as_it_is_and_options_reach_the_function(own: str) -> None:
    assert load(f"{own}:whole").inputs == (3,)
    assert load(f"{own}:whole", size=9).inputs == (9,)


def test_tokens_make_a_language_task(own: str) -> None:
    data = load(f"{own}:language")
    assert (data.task, data.classes, data.inputs) == ("language", 13, (4,))
    assert data.train[0][0].dtype == torch.int64


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("uneven", "one label an input"),
        ("single", "it must return a Data or"),
        ("empty", "test of own_data:empty is empty"),
        ("floats", "whole numbers from 0 on"),
        ("images", "make them floats"),
        ("stream", "a data set with a length"),
        ("bare", r"must be \(input tensor, label\)"),
        ("number", "has no function 'number'"),
        ("nothing", "has no function 'nothing'"),
        ("", "has no function ''"),
    ],
)
def test_what_is_no_data_is_refused(function: str, says: str, own: str) -> None:
    with pytest.raises(DataError, match=says):
        load(f"{own}:{function}")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nowhere_to_be_found:load", "PYTHONPATH"),
        ("broken_data:load", "no_such_package"),
        (":load", "is not module:function"),
        (".relative:load", "is not module:function"),
    ],
)
def test_modules_that_cannot_be_imported_are_named(name: str, says: str, own: str) -> None:
    with pytest.raises(DataError, match=says):
        load(name)


def test_own_data_gets_no_folder(own: str) -> None:
    with pytest.raises(DataError, match="gets no folder"):
        load(f"{own}:pairs", "/data")
