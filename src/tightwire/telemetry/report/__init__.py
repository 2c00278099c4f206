"""One self-contained HTML page from the folders of one or more runs.

    events.py    one worker's file of events → its steps
    curve.py     all workers' steps → one curve; smoothing; fewer points
    reading.py   a run folder → `RunRecord`
    style.py     which name, colour, dash and symbol a run has, everywhere on the page
    table.py     the figures of all runs, the best of each column marked
    figures.py   what plotly draws, as plain data
    shell.py     what every page with figures has
    page.py      the page: `write_report`

>>> from pathlib import Path
>>> write_report([], Path("report.html"))
Traceback (most recent call last):
tightwire.telemetry.report.record.ReportError: no runs to report on; name at least one run folder
"""

from tightwire.telemetry.report.page import write_report
from tightwire.telemetry.report.reading import read_run
from tightwire.telemetry.report.record import Curve, Figures, Note, ReportError, RunRecord

__all__ = ["Curve", "Figures", "Note", "ReportError", "RunRecord", "read_run", "write_report"]
