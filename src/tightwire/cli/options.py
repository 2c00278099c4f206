"""The options of a run, once, for every command that starts one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any

import typer

from tightwire.engines.config import RunConfig

Json = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="PATH|-", help="Write the result as one JSON object to a file, or to standard output."
    ),
]


class Optimizers(StrEnum):
    """Optimizers that the command line makes; a script of your own may use any."""

    sgd = "sgd"
    adamw = "adamw"


class Augments(StrEnum):
    """What is done to training images."""

    none = "none"
    crop_flip = "crop-flip"


class Rates(StrEnum):
    """How the learning rate falls."""

    cosine = "cosine"
    constant = "constant"


class Shards(StrEnum):
    """What each worker sees."""

    shuffled = "shuffled"
    sorted = "sorted"


class Engines(StrEnum):
    """How workers run."""

    processes = "processes"
    inside = "inside"


class Devices(StrEnum):
    """Where workers compute."""

    cpu = "cpu"
    cuda = "cuda"


def _option(kind: Any, text: str, panel: str, flag: str | None = None, metavar: str | None = None) -> Any:
    names = (flag,) if flag else ()
    return Annotated[kind, typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar)]


_WORK, _MACHINES, _SURVIVE = "What to train", "On what", "Surviving"
_SERVER = "Parameter servers"
_LINK = "RATE[,LATENCY]"
_OPTIONS: dict[str, Any] = {
    "data": _option(str, "digits, mnist, fashion-mnist, cifar10, text, speech, or module:function.", _WORK),
    "data_folder": _option(str | None, "Where the data set's files are.", _WORK, "--data-folder", "DIR"),
    "augment": _option(
        Augments | None, "Shift and mirror training images (default: crop-flip for cifar10, else none).", _WORK
    ),
    "model": _option(str, "mlp, lenet-300-100, lenet-5, cnn, resnet20, …, or module:function.", _WORK),
    "codec": _option(
        str | None,
        "Compress what the recipe sends: topk:0.01, half, onebit, lowrank:2, …",
        _WORK,
        metavar="NAME[:NUMBER]",
    ),
    "epochs": _option(float | None, "How long to train (default 30).", _WORK),
    "steps": _option(int | None, "How long to train, in steps instead.", _WORK),
    "samples": _option(
        int | None, "How long to train, in samples of all workers together; the fast ones take more steps.", _WORK
    ),
    "batch": _option(int, "Samples a worker and step.", _WORK),
    "optimizer": _option(Optimizers, "What sits in your optimizer's seat.", _WORK),
    "lr": _option(float | None, "Learning rate (default: the recipe's, as far as the model bears it).", _WORK),
    "momentum": _option(float | None, "Momentum (default: the recipe's).", _WORK),
    "weight_decay": _option(float, "Weight decay.", _WORK, "--weight-decay"),
    "rate": _option(Rates, "How the learning rate falls.", _WORK),
    "rise": _option(
        float | None, "Share of the run in which the learning rate rises first (default: the recipe's).", _WORK
    ),
    "clip": _option(float | None, "Clip gradients to this global norm.", _WORK),
    "seed": _option(int, "The same seed gives the same run.", _WORK),
    "shards": _option(Shards, "sorted gives each worker only some of the classes.", _WORK),
    "workers": _option(int, "How many workers.", _MACHINES),
    "device": _option(Devices, "Where workers compute.", _MACHINES),
    "lab": _option(
        str | None,
        "Put each worker on a host of its own behind a link of this rate: 1gbit; 100mbit,5ms (needs root).",
        _MACHINES,
        metavar=_LINK,
    ),
    "link": _option(str | None, "Slow the wire down in user space instead (no root).", _MACHINES, metavar=_LINK),
    "delays": _option(
        str | None,
        "Hold up every step: by TIME (default 20ms) times a lognormal factor of this SIGMA; real processes sleep.",
        _MACHINES,
        metavar="lognormal:SIGMA[:TIME]",
    ),
    "straggler": _option(
        str | None, "A worker that is held up so many times as long.", _MACHINES, metavar="RANK:FACTORx"
    ),
    "engine": _option(Engines, "inside: all workers in one process, deterministic, time pretended.", _MACHINES),
    "server": _option(
        str | None,
        "Parameter servers that stand alone (`tightwire server`), instead of the workers' own.",
        _SERVER,
        metavar="grpc+tls://HOST:PORT[,…]",
    ),
    "token_file": _option(str | None, "The token that opens this run there.", _SERVER, "--token-file", "FILE"),
    "cert": _option(
        str | None, "This worker's certificate: mutual TLS, or servers of its own.", _SERVER, metavar="FILE"
    ),
    "key": _option(str | None, "The key of that certificate.", _SERVER, metavar="FILE"),
    "ca": _option(str | None, "The authority whose certificates are believed.", _SERVER, metavar="FILE"),
    "insecure": _option(
        bool, "Between machines without TLS: anybody on the network can read and change weights.", _SERVER
    ),
    "copies": _option(
        int | None,
        "How many of the servers keep each shard; all but one of them may die, and others may join and leave.",
        _SERVER,
    ),
    "save_every": _option(int, "Steps between checkpoints.", _SURVIVE, "--save-every"),
    "restarts": _option(int, "How often dead workers are started anew.", _SURVIVE),
    "tensorboard": _option(bool, "Also write TensorBoard scalars into the run's folder.", _WORK),
    "timeout_s": _option(float, "Seconds to wait for a peer before naming it.", _SURVIVE, "--timeout"),
}
_DEFAULTS: dict[str, Any] = {f.name: f.default for f in fields(RunConfig)}


def run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all options of a run; it is called with them as a dict, ``run``."""

    @wraps(command)
    def call(**given: Any) -> None:
        run = {name: _plain(given.pop(name)) for name in _OPTIONS}
        command(run=run, **given)

    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "run"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=_default(name, kind))
        for name, kind in _OPTIONS.items()
    ]
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + added
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call


def _default(name: str, kind: Any) -> Any:
    base = kind.__origin__
    return base(_DEFAULTS[name]) if isinstance(base, type) and issubclass(base, StrEnum) else _DEFAULTS[name]


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, StrEnum) else value
