"""Tables in Markdown."""

from __future__ import annotations


def table(head: list[str], rows: list[list[object]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join('---' for _ in head)}|"]
    return "\n".join([*lines, *(f"| {' | '.join(str(cell) for cell in row)} |" for row in rows)]) + "\n"
