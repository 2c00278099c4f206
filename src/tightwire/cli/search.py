"""`tightwire search`: how hard to prune each layer, chosen by AMC or its rivals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tightwire.cli.options import Devices, Json

_GOAL, _HOW, _WHAT, _KEEP = "How small", "How to search", "Of what", "Surviving"


def _option(*flags: str, text: str, panel: str, metavar: str | None = None) -> Any:
    return typer.Option(*flags, help=text, rich_help_panel=panel, metavar=metavar)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(search)


def search(
    source: Annotated[Path, typer.Argument(metavar="RUN|FILE", help="A run's folder, or a .safetensors file.")],
    *,
    out: Annotated[Path, _option("-o", "--out", text="The policy to write.", panel=_WHAT)] = Path("policy.json"),
    model: Annotated[str | None, _option(text="The network, for a file of weights.", panel=_WHAT)] = None,
    model_option: Annotated[
        list[str] | None, _option(text="An option of the network: norm=batch.", panel=_WHAT, metavar="KEY=VALUE")
    ] = None,
    data: Annotated[str | None, _option(text="Measure on this (default: the run's).", panel=_WHAT)] = None,
    data_folder: Annotated[
        str | None, _option("--data-folder", text="Where its files are.", panel=_WHAT, metavar="DIR")
    ] = None,
    budget: Annotated[
        str | None,
        _option(text="flops=0.5, params=50k, bytes=200kB or latency=2ms.", panel=_GOAL, metavar="KIND=AMOUNT"),
    ] = None,
    prune: Annotated[
        Literal["channels", "weights", "joint"] | None,
        _option(text="Whole channels; single weights; or weights, patterns and bits.", panel=_GOAL),
    ] = None,
    reward: Annotated[
        Literal["error", "flops", "params"], _option(text="-error, or -error times a logarithm.", panel=_GOAL)
    ] = "error",
    multiple_of: Annotated[int, _option(text="Keep multiples of so many channels.", panel=_GOAL)] = 1,
    least: Annotated[float | None, _option(text="The smallest share a layer may keep.", panel=_GOAL)] = None,
    bits: Annotated[int, _option(text="Of a shared value, for budgets of bytes.", panel=_GOAL)] = 4,
    batch: Annotated[int, _option(text="Samples of which a latency is.", panel=_GOAL)] = 1,
    rounds: Annotated[
        str | None, _option(text="Search, prune and train in rounds: 0.5,0.35,0.25,0.2.", panel=_GOAL)
    ] = None,
    round_epochs: Annotated[float, _option(text="Of training between rounds.", panel=_GOAL)] = 5.0,
    method: Annotated[
        str, _option(text="amc, uniform, sensitivity, evolution; several with commas; or all.", panel=_HOW)
    ] = "amc",
    episodes: Annotated[int, _option(text="Evaluations of every method.", panel=_HOW)] = 400,
    samples: Annotated[int, _option(text="Training samples kept apart to decide by.", panel=_HOW)] = 2000,
    seed: Annotated[int, _option(text="The same seed gives the same policy on one machine.", panel=_HOW)] = 0,
    device: Annotated[Devices, _option(text="Where to compute, and what is timed.", panel=_HOW)] = Devices.cpu,
    latency_table: Annotated[
        Path | None, _option(text="Timed layers, kept for other searches.", panel=_KEEP, metavar="FILE")
    ] = None,
    work: Annotated[
        Path | None, _option(text="Where the search is kept (default: OUT.work).", panel=_KEEP, metavar="DIR")
    ] = None,
    overwrite: Annotated[bool, _option(text="Begin anew, whatever the work folder holds.", panel=_KEEP)] = False,
    json_to: Json = None,
) -> None:
    """Choose how hard to prune each layer, within a budget that is never exceeded.

    Writes a policy for `tightwire shrink --policy`, and a report beside it. Called again after Ctrl-C, it goes on.
    """
    from tightwire.cli.search_show import Live, tables
    from tightwire.cli.show import console, write_json
    from tightwire.compress.search.budget import parse_budget
    from tightwire.compress.search.build import Wish
    from tightwire.engines.search import SearchConfig, search_policy
    from tightwire.engines.search_methods import METHODS
    from tightwire.engines.search_words import default_prune, parse_rounds

    asked = parse_budget(budget) if budget is not None else None
    densities = parse_rounds(rounds)
    if densities and asked is None:
        asked = parse_budget(f"params={densities[-1]:g}")
    wish = Wish(asked, prune or default_prune(asked, rounds=bool(densities)), reward, multiple_of, least, bits, batch)
    config = SearchConfig(
        source, out, wish, methods=METHODS if method == "all" else tuple(method.split(",")), episodes=episodes,
        samples=samples, seed=seed, model=model, options=tuple(model_option or ()), data=data, data_folder=data_folder,
        device=str(device.value), rounds=densities, round_epochs=round_epochs, table=latency_table, work=work,
        overwrite=overwrite,
    )  # fmt: skip
    words = console(json_to)
    with Live(words) as live:
        result = search_policy(config, watch=live)
    for table in tables(result):
        words.print(table)
    words.print(
        f"[bold]{out}[/]: {result['method']}, {100 * result['cost'] / result['whole']:.1f}% of the cost, error "
        f"{100 * result['error']:.2f}% before any retraining; report: {result['report']}"
    )
    words.print(f"[dim]next: tightwire shrink {source} --policy {out}[/]")
    write_json(result, json_to)
