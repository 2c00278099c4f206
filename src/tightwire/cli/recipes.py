"""`tightwire recipes`: every recipe, its axes, its paper, when to use it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tightwire.cli.options import Json


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(recipes)


def recipes(
    name: Annotated[str | None, typer.Argument(help="One recipe, in full.")] = None, json_to: Json = None
) -> None:
    """List the recipes, or show one: its axes, parameters, paper, and what it equals in degenerate cases."""
    from tightwire.cli.show import console, write_json
    from tightwire.recipes.catalogue import CATALOGUE, find

    words = console(json_to)
    entries = list(CATALOGUE.values()) if name is None else [find(name)]
    if json_to is not None:
        write_json({"recipes": [_as_dict(entry) for entry in entries]}, json_to)
    elif name is None:
        _print_all(words, entries)
    else:
        _print_one(words, entries[0])


def _as_dict(entry: Any) -> dict[str, Any]:
    from tightwire.algebra.recipe import describe

    return {
        "name": entry.name,
        "recipe": describe(entry.make()),
        "paper": vars(entry.paper),
        "when": entry.when,
        "parameters": _parameters(entry),
        "laws": [law.says for law in entry.laws],
    }


def _parameters(entry: Any) -> dict[str, str]:
    import inspect

    from tightwire.recipes.words import say

    found = inspect.signature(entry.make).parameters.values()
    return {p.name: "" if p.default is inspect.Parameter.empty else say(p.default) for p in found}


def _print_all(words: Any, entries: list[Any]) -> None:
    from rich.table import Table

    table = Table(header_style="bold", box=None, pad_edge=False)
    for column in ("recipe", "use it when", "paper"):
        table.add_column(column, overflow="fold")
    for entry in entries:
        table.add_row(f"[bold]{entry.name}[/]", entry.when, f"[dim]{entry.paper.where}[/]")
    words.print(table)
    words.print("\n[dim]tightwire recipes NAME shows one in full.[/]")


def _print_one(words: Any, entry: Any) -> None:
    from tightwire.algebra.recipe import leaves

    words.print(f"[bold]{entry.name}[/]: {entry.when}\n")
    stop = "" if entry.paper.title.endswith("?") else "."
    words.print(f"{entry.paper.authors}: [italic]{entry.paper.title}[/]{stop} {entry.paper.where}\n")
    for key, default in _parameters(entry).items():
        words.print(f"  {entry.name}:[bold]{key}[/]={default}", markup=True)
    for leaf in leaves(entry.make()):
        words.print(f"\n[bold]{leaf.recipe.name}[/]")
        for axis, value in vars(leaf.recipe).items():
            if axis not in ("name", "buffers"):
                words.print(f"  {axis:9} {value}", markup=False)
    words.print("\n[bold]What it equals[/]")
    for law in entry.laws:
        words.print(f"  {law.says}", markup=False)
