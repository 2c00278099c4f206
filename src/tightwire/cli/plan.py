"""`tightwire plan`: which recipe, before anything is paid for."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tightwire.cli.options import Devices, Json

_WHAT, _WHERE, _HOW = "What to train", "On what", "What to plan"


class Objectives(StrEnum):
    """What a plan makes small."""

    time = "time"
    bytes = "bytes"
    cost = "cost"


def _option(*flags: str, text: str, panel: str, metavar: str | None = None) -> Any:
    return typer.Option(*flags, help=text, rich_help_panel=panel, metavar=metavar)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(plan)


_EXAMPLES = """Examples:

tightwire plan --model dnn7 --workers 1,2,4,8,64 --link 1gbit

tightwire plan --model my_models:net --data my_data:load --link 100mbit,5ms -o plan.html

tightwire plan --model resnet50 --device cuda --save-profile gpu.json   (on the machine that has the GPU)

tightwire plan --profile gpu.json --cluster racks.toml --objective cost   (anywhere)
"""


def plan(
    *,
    model: Annotated[str | None, _option(text="mlp, dnn7, resnet50, …, or module:function.", panel=_WHAT)] = None,
    data: Annotated[
        str | None, _option(text="Take the inputs from this data set (default: made up).", panel=_WHAT)
    ] = None,
    data_folder: Annotated[
        str | None, _option("--data-folder", text="Where its files are.", panel=_WHAT, metavar="DIR")
    ] = None,
    batch: Annotated[int, _option(text="Samples a worker and step.", panel=_WHAT)] = 16,
    samples: Annotated[
        int | None, _option(text="Samples of an epoch (default: the data set's, or a million).", panel=_WHAT)
    ] = None,
    workers: Annotated[
        str, _option(text="How many workers, one or several numbers.", panel=_WHERE, metavar="N[,N…]")
    ] = "1,2,4,8",
    link: Annotated[
        str | None,
        _option(text="The link of every host: 1gbit (default); 100mbit,5ms.", panel=_WHERE, metavar="RATE[,LATENCY]"),
    ] = None,
    cluster: Annotated[
        Path | None, _option(text="Hosts, devices, links by tier: JSON or TOML.", panel=_WHERE, metavar="FILE")
    ] = None,
    device: Annotated[Devices, _option(text="What to time the network on.", panel=_WHERE)] = Devices.cpu,
    profile: Annotated[
        Path | None, _option(text="Use these times instead of measuring.", panel=_WHERE, metavar="FILE")
    ] = None,
    save_profile: Annotated[
        Path | None, _option("--save-profile", text="Keep the times for elsewhere.", panel=_WHERE, metavar="FILE")
    ] = None,
    objective: Annotated[Objectives, _option(text="What shall be small, over an epoch.", panel=_HOW)] = Objectives.time,
    recipes: Annotated[
        str, _option(text="Only these (default: all): sync-sgd,dgc.", panel=_HOW, metavar="NAME[,NAME…]")
    ] = "",
    published: Annotated[
        bool, _option("--published", text="What papers printed, and what this model gives.", panel=_HOW)
    ] = False,
    out: Annotated[
        Path | None, _option("-o", "--out", text="Draw it: a page (.html) or a picture (.png).", panel=_HOW)
    ] = None,
    json_to: Json = None,
) -> None:
    """Predict every recipe on your model, machines and wire, and say which to use.

    Times the network and the codecs once on this machine (or reads a profile), prices each recipe's own transfers on
    the links, and ranks them. Says plain all-reduce when that is the truth.
    """
    from tightwire.algebra.errors import RecipeError
    from tightwire.cli.plan_show import say_plan, say_published, write_picture
    from tightwire.cli.show import console, write_json
    from tightwire.engines.planning import PlanConfig, command_of, make_plan
    from tightwire.plan.advice import as_data
    from tightwire.plan.errors import PlanError

    words = console(json_to)
    if published:
        say_published(words, out, json_to)
        return
    if model is None and profile is None:
        raise PlanError("a plan needs a network: give --model, or --profile with one that was timed before")
    names = tuple(name for name in recipes.split(",") if name)
    if any(":" in name for name in names):
        raise RecipeError(f"recipes={recipes}: a plan chooses the parameters itself; give names alone")
    config = PlanConfig(
        model=model or "", workers=_numbers(workers), link=link, cluster=cluster, data=data, data_folder=data_folder,
        batch=batch, device=device.value, profile=profile, save_profile=save_profile, objective=objective.value,
        recipes=names, samples=samples,
    )  # fmt: skip
    with words.status("planning") as status:
        found = make_plan(config, told=status.update)
    command = command_of(config, found)
    say_plan(words, found, command)
    if out is not None:
        write_picture(found, command, out)
        words.print(f"[dim]{out}[/]")
    write_json({**as_data(found), "command": command}, json_to) if json_to else None


def _numbers(text: str) -> tuple[int, ...]:
    from tightwire.plan.errors import PlanError

    try:
        return tuple(int(word) for word in text.split(",") if word)
    except ValueError:
        raise PlanError(f"workers={text}: give whole numbers, such as 1,2,4,8") from None
