"""Parts are found: ours by looking, other packages' by their entry points, and what is left out is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tightwire.algebra.rule import Rule, Signal
from tightwire.codecs import dense as module
from tightwire.codecs.dense import Dense, dense
from tightwire.testing import codecs
from tightwire.testing.found import found, untested

FOREIGN = """
from tightwire.codecs.dense import Dense
from tightwire.rules.signals import Weights

class Foreign(Dense):
    pass

def make():
    return Foreign()

instance = Foreign()
signal = Weights()
"""


def test_a_part_of_another_package_is_found_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Foreign" not in {type(codec).__name__ for codec in found("codecs")}
    ours = {protocol: len(found("rules", protocol)) for protocol in (Rule, Signal)}
    (tmp_path / "somebody_elses.py").write_text(FOREIGN)
    info = tmp_path / "somebody_elses-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody-elses\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tightwire.codecs]\n"
        "by_function = somebody_elses:make\nby_class = somebody_elses:Foreign\nby_value = somebody_elses:instance\n"
        "[tightwire.rules]\nsignal = somebody_elses:signal\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    foreign = [codec for codec in found("codecs") if type(codec).__name__ == "Foreign"]
    assert len(foreign) == 3
    codecs.check_all(foreign[0])
    assert {protocol: len(found("rules", protocol)) for protocol in ours} == {
        Rule: ours[Rule],
        Signal: ours[Signal] + 1,
    }


def test_an_implementation_without_an_example_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Untested(Dense):
        pass

    Untested.__module__ = module.__name__
    assert untested("codecs") == []
    monkeypatch.setattr(module, "Untested", Untested, raising=False)
    assert untested("codecs") == ["tightwire.codecs.dense.Untested"]
    monkeypatch.setattr(module, "examples", (dense(), Untested()))
    assert untested("codecs") == []


def test_a_helper_class_beside_an_implementation_needs_no_example(monkeypatch: pytest.MonkeyPatch) -> None:
    class Helper:
        combines = "sum"

    Helper.__module__ = module.__name__
    monkeypatch.setattr(module, "Helper", Helper, raising=False)
    assert untested("codecs") == []
