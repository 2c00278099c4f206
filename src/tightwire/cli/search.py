"""`tightwire search`: how hard to prune each layer, chosen by AMC or its rivals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tightwire.cli.options import Devices, Json
from tightwire.cli.source_options import KEEP, WHAT, DataFolder, Model, ModelOptions, Overwrite, SourceArgument, option

_GOAL, _HOW = "How small", "How to search"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(search)


def search(
    source: SourceArgument,
    *,
    out: Annotated[Path, option("-o", "--out", text="The policy to write.", panel=WHAT)] = Path("policy.json"),
    model: Model = None,
    model_option: ModelOptions = None,
    data: Annotated[str | None, option(text="Measure on this (default: the run's).", panel=WHAT)] = None,
    data_folder: DataFolder = None,
    budget: Annotated[
        str | None,
        option(text="flops=0.5, params=50k, bytes=200kB or latency=2ms.", panel=_GOAL, metavar="KIND=AMOUNT"),
    ] = None,
    prune: Annotated[
        Literal["channels", "weights", "joint"] | None,
        option(text="Whole channels; single weights; or weights, patterns and bits.", panel=_GOAL),
    ] = None,
    reward: Annotated[
        Literal["error", "flops", "params"], option(text="-error, or -error times a logarithm.", panel=_GOAL)
    ] = "error",
    multiple_of: Annotated[int, option(text="Keep multiples of so many channels.", panel=_GOAL)] = 1,
    least: Annotated[float | None, option(text="The smallest share a layer may keep.", panel=_GOAL)] = None,
    bits: Annotated[int, option(text="Of a shared value, for budgets of bytes.", panel=_GOAL)] = 4,
    batch: Annotated[int, option(text="Samples of which a latency is.", panel=_GOAL)] = 1,
    rounds: Annotated[
        str | None, option(text="Search, prune and train in rounds: 0.5,0.35,0.25,0.2.", panel=_GOAL)
    ] = None,
    round_epochs: Annotated[float, option(text="Of training between rounds.", panel=_GOAL)] = 5.0,
    method: Annotated[
        str,
        option(
            text="amc, uniform, threshold, curvature, sensitivity, evolution, amc-paper; several with commas; or all.",
            panel=_HOW,
        ),
    ] = "amc",
    episodes: Annotated[int, option(text="Evaluations of every method.", panel=_HOW)] = 400,
    samples: Annotated[int, option(text="Training samples kept apart to decide by.", panel=_HOW)] = 2000,
    seed: Annotated[int, option(text="The same seed gives the same policy on one machine.", panel=_HOW)] = 0,
    device: Annotated[Devices, option(text="Where to compute, and what is timed.", panel=_HOW)] = Devices.cpu,
    latency_table: Annotated[
        Path | None, option(text="Timed layers, kept for other searches.", panel=KEEP, metavar="FILE")
    ] = None,
    work: Annotated[
        Path | None, option(text="Where the search is kept (default: OUT.work).", panel=KEEP, metavar="DIR")
    ] = None,
    overwrite: Overwrite = False,
    json_to: Json = None,
) -> None:
    """Choose how hard to prune each layer, within a budget that is never exceeded.

    Writes a policy for `tightwire shrink --policy`, and a report beside it. Called again after Ctrl-C, it goes on.
    """
    from tightwire.cli.search_show import live, say_found
    from tightwire.cli.show import console, write_json
    from tightwire.compress.search.budget import parse_budget
    from tightwire.compress.search.build import Wish
    from tightwire.engines.search import SearchConfig, search_policy
    from tightwire.engines.search_methods import every_method
    from tightwire.engines.search_words import default_prune, parse_rounds

    asked = parse_budget(budget) if budget is not None else None
    densities = parse_rounds(rounds)
    if densities and asked is None:
        asked = parse_budget(f"params={densities[-1]:g}")
    wish = Wish(asked, prune or default_prune(asked, rounds=bool(densities)), reward, multiple_of, least, bits, batch)
    methods = every_method(wish.prune) if method == "all" else tuple(method.split(","))
    config = SearchConfig(
        source, out, wish, methods=methods, episodes=episodes, samples=samples, seed=seed, model=model,
        options=tuple(model_option or ()), data=data, data_folder=data_folder,
        device=str(device.value), rounds=densities, round_epochs=round_epochs, table=latency_table, work=work,
        overwrite=overwrite,
    )  # fmt: skip
    words = console(json_to)
    with live(words) as watch:
        result = search_policy(config, watch=watch)
    say_found(words, result, source=source, out=out)
    write_json(result, json_to)
