"""docs/published.md, made from the papers: `tightwire plan --published -o docs/published.md`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from tightwire.plan.published import (
    backup,
    ddl,
    dgc,
    easgd,
    firecaffe,
    goyal,
    krizhevsky,
    layerwise,
    rudra,
    sparknet,
    terngrad,
)
from tightwire.plan.published.paper import Claim, Paper

_PAPERS = (layerwise, firecaffe, goyal, ddl, dgc, terngrad, krizhevsky, sparknet, easgd, backup, rudra)
_HEAD = """# Published results as tests of the model

Made by `tightwire plan --published -o docs/published.md`. Each row is a number that a paper printed, and what `plan`
gives from the inputs that the paper states: the same code that plans your runs, no formula of its own. Where a paper
leaves an input out, the row names it and shows the range that a plausible range of it gives, and what it would have to
be for the printed number to come out. *Agrees* and *in the range* mean to within 10%.

How we know what was printed: **read** in the paper, in its **abstract**, **second-hand** in someone's account of it, or
only **from memory**, which is to be confirmed before anybody quotes it.
"""


@lru_cache(maxsize=1)
def results() -> tuple[Paper, ...]:
    """All papers, predicted."""
    return tuple(module.paper() for module in _PAPERS)


def markdown(papers: Sequence[Paper]) -> str:
    """The page."""
    return "\n".join([_HEAD, _summary(papers), *(_section(paper) for paper in papers)])


def _summary(papers: Sequence[Paper]) -> str:
    verdicts = [claim.verdict for paper in papers for claim in paper.claims]
    good = sum(verdict in ("agrees", "in the range") for verdict in verdicts)
    never = sum(verdict == "cannot be" for verdict in verdicts)
    return (
        f"Of {len(verdicts)} printed numbers the model gives {good} to within 10% (or within the range of what is not "
        f"stated), {never} cannot follow from what is stated, and {len(verdicts) - good - never} differ.\n"
    )


def _section(paper: Paper) -> str:
    lines = [f"## {paper.name}\n", f"{paper.cite}.\n", f"Stated: {paper.stated}.\n"]
    lines += ["| | printed | model | verdict | not stated | needs | known |", "|---|---|---|---|---|---|---|"]
    for claim in paper.claims:
        cells = (
            claim.what, _number(claim.printed, claim.unit), _model(claim), f"**{claim.verdict}**", claim.open or "–",
            claim.needs or "–", claim.evidence,
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"{paper.remark}\n" if paper.remark else ""])


def _model(claim: Claim) -> str:
    low, high = _number(claim.low, claim.unit), _number(claim.high, claim.unit)
    most = "at most " if claim.bound else ""
    return most + (high if low == high else f"{_number(claim.low, '')} to {high}")


def _number(value: float, unit: str) -> str:
    return f"{value:.3g}{unit}"


def lines(papers: Sequence[Paper]) -> list[tuple[str, ...]]:
    """For a terminal: paper, what, printed, model, verdict."""
    return [
        (paper.name if at == 0 else "", claim.what, _number(claim.printed, claim.unit), _model(claim), claim.verdict)
        for paper in papers
        for at, claim in enumerate(paper.claims)
    ]


def as_data(papers: Sequence[Paper]) -> dict[str, Any]:
    """For JSON."""
    return {
        "papers": [
            {
                "name": paper.name,
                "cite": paper.cite,
                "stated": paper.stated,
                "remark": paper.remark,
                "claims": [{**asdict(claim), "verdict": claim.verdict} for claim in paper.claims],
            }
            for paper in papers
        ]
    }
