"""The layer-wise paper's table as a person sees it."""

from __future__ import annotations

from tightwire.cli.bench import _accuracy


def test_of_several_accuracies_the_one_with_weights_foretold_is_shown() -> None:
    known = [
        {"system": "layer-wise", "workers": 8, "accuracy": 0.12},
        {"system": "layer-wise+predict", "workers": 8, "accuracy": 0.11},
        {"system": "serial", "workers": 1, "error": "it broke off"},
    ]
    assert _accuracy(known, {"system": "layer-wise", "workers": 8}) == "11.00"
    assert _accuracy(known[:1], {"system": "layer-wise", "workers": 8}) == "12.00"
    assert _accuracy(known, {"system": "serial", "workers": 1}) == "–"
