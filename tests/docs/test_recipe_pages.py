"""Every recipe has a page that names its paper, its parameters with their defaults, and the axes it is made of."""

import inspect
import re
from pathlib import Path

import pytest

from tightwire.algebra.recipe import leaves
from tightwire.recipes.catalogue import CATALOGUE
from tightwire.recipes.entry import RecipeEntry

PAGES = Path(__file__).parents[2] / "docs" / "recipes"
entries = pytest.mark.parametrize("entry", CATALOGUE.values(), ids=list(CATALOGUE))


def page(name: str) -> str:
    """A page's text, on one line: sentences may break anywhere."""
    return " ".join((PAGES / f"{name}.md").read_text(encoding="utf-8").split())


def rows(name: str) -> dict[str, list[str]]:
    """The cells of a page's tables, by what stands in the first one: `parameters` in backticks, axes without."""
    lines = (PAGES / f"{name}.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return {first: rest for first, *rest in cells}


def test_there_is_a_page_for_each_recipe_and_no_other() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} - {"README"} == set(CATALOGUE)


@entries
def test_the_table_of_contents_links_to_it(entry: RecipeEntry) -> None:
    assert f"| [`{entry.name}`]({entry.name}.md) |" in page("README")


@entries
def test_it_names_its_paper(entry: RecipeEntry) -> None:
    text = page(entry.name)
    assert entry.paper.authors.split(",")[0] in text
    for place in entry.paper.where.split(", "):
        assert re.fullmatch(r"\d{4}", place) or place in text, f"{entry.name} does not say {place}"


@entries
def test_it_names_every_parameter_and_its_default(entry: RecipeEntry) -> None:
    told = rows(entry.name)
    for parameter in inspect.signature(entry.make).parameters.values():
        row = told.get(f"`{parameter.name}`")
        assert row, f"{entry.name} does not explain {parameter.name}"
        if isinstance(parameter.default, int | float | str):
            said = row[0].strip('`"')
            assert said == str(parameter.default), f"{entry.name}: {parameter.name} is {parameter.default}, not {said}"


@entries
def test_what_it_shows_as_printed_is_what_is_printed(entry: RecipeEntry) -> None:
    told = rows(entry.name)
    if told.get("axis", [""])[0] != "printed":
        return
    (leaf,) = leaves(entry.make())
    for axis, value in vars(leaf.recipe).items():
        if axis not in ("name", "buffers"):
            assert told[axis][0] == f"`{value}`"


def test_links_between_pages_lead_somewhere() -> None:
    for path in PAGES.glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+\.md)\)", path.read_text(encoding="utf-8")):
            assert (PAGES / target).exists(), f"{path.name} links to {target}"


def test_files_that_pages_name_exist() -> None:
    root = PAGES.parents[1]
    for path in PAGES.glob("*.md"):
        for named in re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", path.read_text(encoding="utf-8")):
            assert (root / named).exists() or (root / "src/tightwire" / named).exists(), f"{path.name} names {named}"
