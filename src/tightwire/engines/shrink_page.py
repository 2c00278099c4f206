"""The report of a shrunk network as one HTML page: stages, layers, where the bytes are. Loads nothing from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from tightwire.engines.config import ConfigError

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>{title}</title><style>{css}
td.wide{{width:30%}}td.wide div{{display:flex;align-items:center;justify-content:space-between;gap:1em}}
.bar{{flex:1}}.share{{display:block;height:.8em;border-radius:2px;background:#3b6ea8;min-width:1px}}
.plan{{line-height:1.7}}</style></head>
<body><main><header><p class="brand">tightwire shrink</p><h1>{title}</h1><p class="compared">{summary}</p></header>
<section><h2>Stages</h2>{stages}</section>
<section><h2>Layers</h2>{layers}</section>
<section><h2>Plan</h2>{plan}</section></main></body></html>
"""


def write_page(result: dict[str, Any], out: Path) -> None:
    """Write the page, whole or not at all."""
    partial = out.with_name(f".{out.name}.partial")
    try:
        partial.write_text(page(result), encoding="utf-8")
        partial.replace(out)
    except OSError as error:
        raise ConfigError(f"{out} cannot be written ({error.strerror}); name another --out") from None


def page(result: dict[str, Any]) -> str:
    """The whole page."""
    css = files("tightwire.telemetry.report").joinpath("page.css").read_text(encoding="utf-8")
    speed = result["samples_per_second"]
    accuracy = ""
    if "test_accuracy" in result:
        accuracy = f" Accuracy {result['reference_accuracy']:.2%} before, {result['test_accuracy']:.2%} from the file."
    summary = (
        f"{result['dense_nbytes']:,} bytes of parameters, {result['nbytes']:,} bytes in the file."
        f"{accuracy} One sample at a time: {speed['dense']:,.0f} a second before, {speed['file']:,.0f} from the file."
    )
    return _PAGE.format(
        title=escape(f"{result['model']}: {result['ratio']:.1f} times smaller"),
        css=css,
        summary=escape(summary),
        stages=_stages(result["stages"]),
        layers=_layers(result["layers"], result["nbytes"]),
        plan=_plan(result["plan"]),
    )


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
    return _table(("stage", "accuracy", "kept", "bytes", "ratio", "time"), rows)


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
    return _table(("layer", "shape", "kept", "values", "bits a value", "bytes", "part of the file"), rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str | float]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(str(row[0]))}</th>{"".join(_cell(value) for value in row[1:])}</tr>'
        for row in rows
    )
    table = f'<table class="runs"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def _cell(value: str | float) -> str:
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    return (
        f'<td class="wide"><div><span class="bar"><span class="share" style="width:{100 * min(max(value, 0), 1):.1f}%">'
        f"</span></span>{value:.1%}</div></td>"
    )
