"""The report of a shrunk network as one HTML page: stages, layers, bytes, a scan. Loads nothing from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from tightwire.engines import page as pages
from tightwire.engines.page import table
from tightwire.engines.shrink_scan import draw


def page(result: dict[str, Any]) -> str:
    """The whole page."""
    speed = result["samples_per_second"]
    accuracy = ""
    if "test_accuracy" in result:
        accuracy = f" Accuracy {result['reference_accuracy']:.2%} before, {result['test_accuracy']:.2%} from the file."
    summary = (
        f"{result['dense_nbytes']:,} bytes of parameters, {result['nbytes']:,} bytes in the file."
        f"{accuracy} One sample at a time: {speed['dense']:,.0f} a second before, {speed['file']:,.0f} from the file."
    )
    sections = [("Stages", _stages(result["stages"])), ("Layers", _layers(result["layers"], result["nbytes"]))]
    if result.get("sensitivity"):
        sections.append(("What each layer bears alone", draw(result["sensitivity"])))
    title = f"{result['model']}: {result['ratio']:.1f} times smaller"
    return pages.page("shrink", title, summary, [*sections, ("Plan", _plan(result["plan"]))])


def _plan(plan: dict[str, Any]) -> str:
    """What was asked for, and how it was trained, a paragraph each; what was left open is left out."""
    training = {key: value for key, value in plan.items() if isinstance(value, dict) and "epochs" in value}
    own = {key: value for key, value in plan.items() if key not in training}
    lines = [("plan", own), *training.items()]
    return "".join(f'<p class="plan"><b>{escape(name)}</b>: {escape(_words(values))}</p>' for name, values in lines)


def _words(values: dict[str, Any]) -> str:
    said = {key: value for key, value in values.items() if value is not None and value != {}}
    return " · ".join(
        f"{key.replace('_', ' ')} {f'{value:g}' if isinstance(value, float) else value}" for key, value in said.items()
    )


def _stages(stages: Sequence[dict[str, Any]]) -> str:
    rows = [
        (
            row["stage"].partition("-")[2] + (" (taken back)" if row.get("taken_back") else ""),
            f"{row['test']['accuracy']:.2%}" if "test" in row else "",
            f"{row['density']:.2%}",
            f"{row['nbytes']:,}" if "nbytes" in row else "",
            f"{row['ratio']:.1f}×" if "ratio" in row else "",
            f"{row['seconds']:.1f} s",
        )
        for row in stages
    ]
    return table(("stage", "accuracy", "kept", "bytes", "ratio", "time"), rows)


def _layers(layers: Sequence[dict[str, Any]], whole: int) -> str:
    """One line a layer; the bar is its part of the file."""
    rows = [
        (
            row["layer"], "×".join(map(str, row["shape"])), f"{row['density']:.2%}", str(row["centroids"]),
            f"{row['bits']:.2f}", f"{row['nbytes']:,}", row["nbytes"] / whole,
        )
        for row in layers
    ]  # fmt: skip
    named = sum(row["nbytes"] for row in layers)
    rows.append(("everything else", "", "", "", "", f"{whole - named:,}", (whole - named) / whole))
    return table(("layer", "shape", "kept", "values", "bits a value", "bytes", "part of the file"), rows)
