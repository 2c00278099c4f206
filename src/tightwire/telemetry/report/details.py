"""One run in detail, folded: what was asked, what the recipe is made of, what happened."""

from __future__ import annotations

import json
from html import escape

from tightwire.telemetry.report.record import Note, RunRecord
from tightwire.telemetry.report.style import Style
from tightwire.telemetry.report.units import plural

NOTES = 200  # at most so many on the page


def details(run: RunRecord, look: Style) -> str:
    """The folded block of a run."""
    made = f"<h4>Made of</h4><pre>{escape(run.composition)}</pre>" if run.composition else ""
    who = f"{look.swatch()}<span><b>{escape(look.label)}</b> <small>{escape(str(run.folder))}</small></span>"
    return f"<details><summary>{who}</summary><h4>Configuration</h4>{_configuration(run)}{made}{_notes(run)}</details>"


def _configuration(run: RunRecord) -> str:
    """What was asked for; what was left to the recipe or the machine is dimmed."""
    rows = []
    for key, value in run.config.items():
        if key == "folder":  # stands in the summary
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        dim, shown = (' class="none"', "left open") if value is None else ("", text)
        rows.append(f"<div{dim}><dt>{escape(str(key))}</dt><dd>{escape(shown)}</dd></div>")
    return f'<dl class="config">{"".join(rows)}</dl>'


def _notes(run: RunRecord) -> str:
    told = "".join(f"<li>{_note(note, run.workers)}</li>" for note in run.notes[:NOTES])
    more = len(run.notes) - NOTES
    rest = f"<li>and {plural(more, 'more note')} in {escape(str(run.folder / 'events'))}</li>" if more > 0 else ""
    return f'<h4>Notes</h4><ul class="notes">{told}{rest}</ul>' if told else ""


def _note(note: Note, workers: int) -> str:
    if not note.ranks:
        return escape(note.text)
    everyone = len(note.ranks) == workers and workers > 1
    who = "all workers" if everyone else f"rank {', '.join(str(rank) for rank in note.ranks)}"
    return f"<span>step {note.steps}, {who}</span> {escape(note.text)}"
