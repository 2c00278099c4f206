"""What a run is: everything that `tightwire train` can be told, as one value that is saved with the run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from tightwire.algebra.errors import TightwireError
from tightwire.files import write_json
from tightwire.links.access import Access


class ConfigError(TightwireError, ValueError):
    """A run that cannot be: names the value and what to give instead."""


@dataclass(frozen=True)
class RunConfig:
    """One run. None leaves a choice to the recipe or the machine."""

    recipe: str = "sync-sgd"
    params: dict[str, Any] = field(default_factory=dict)
    codec: str | None = None
    workers: int = 4
    data: str = "digits"
    data_folder: str | None = None
    augment: Literal["none", "crop-flip"] | None = None
    model: str = "mlp"
    epochs: float | None = None
    steps: int | None = None
    samples: int | None = None
    batch: int = 16
    optimizer: Literal["sgd", "adamw"] = "sgd"
    lr: float | None = None
    momentum: float | None = None
    weight_decay: float = 0.0
    rate: Literal["cosine", "constant"] = "cosine"
    rise: float | None = None
    clip: float | None = None
    seed: int = 0
    shards: Literal["shuffled", "sorted"] = "shuffled"
    device: Literal["cpu", "cuda"] = "cpu"
    engine: Literal["processes", "inside"] = "processes"
    lab: str | None = None
    link: str | None = None
    delays: str | None = None
    straggler: str | None = None
    server: str | None = None
    token_file: str | None = None
    cert: str | None = None
    key: str | None = None
    ca: str | None = None
    insecure: bool = False
    copies: int | None = None
    save_every: int = 200
    restarts: int = 3
    timeout_s: float = 60.0
    tensorboard: bool = False
    folder: str = "runs/run"
    plan: dict[str, Any] | None = None  # why --recipe auto chose what it chose

    def __post_init__(self) -> None:
        _at_least("workers", self.workers, 1)
        _at_least("batch", self.batch, 1)
        _at_least("save-every", self.save_every, 1)
        _at_least("restarts", self.restarts, 0)
        given = {name: value for name in ("epochs", "steps", "samples") if (value := getattr(self, name)) is not None}
        if len(given) > 1:
            raise ConfigError(f"{' and '.join(f'{name}={value}' for name, value in given.items())}: give one of them")
        if self.epochs is not None and self.epochs <= 0:
            raise ConfigError(f"epochs={self.epochs}: training takes more than none; give a positive number")
        if self.steps is not None:
            _at_least("steps", self.steps, 1)
        if self.samples is not None:
            _at_least("samples", self.samples, 1)
        if self.rise is not None and not 0 <= self.rise < 1:
            raise ConfigError(f"rise={self.rise}: it is a share of the run; give at least 0 and less than 1")
        if self.lab is not None and self.engine == "inside":
            raise ConfigError(f"lab={self.lab} and engine=inside: a lab has a process on each host; give one of them")
        if self.lab is not None and self.link is not None:
            raise ConfigError(f"lab={self.lab} and link={self.link}: the lab has links of its own; give one of them")
        if self.copies is not None and not 1 <= self.copies <= max(1, len((self.server or "").split(","))):
            raise ConfigError(f"copies={self.copies}: each is kept by another server; name that many with --server")
        if self.server is not None and (self.engine == "inside" or self.lab is not None):
            raise ConfigError(f"server={self.server}: workers in {'a lab' if self.lab else 'one process'} reach none")
        if self.timeout_s <= 0:
            raise ConfigError(f"timeout={self.timeout_s}: a peer needs some time; give a positive number of seconds")

    @property
    def path(self) -> Path:
        """The run's folder."""
        return Path(self.folder)

    @property
    def access(self) -> Access | None:
        """Where parameter servers are and what opens them, if that was said; else the environment says it."""
        told = (self.server, self.token_file, self.cert, self.key, self.ca)
        if not self.insecure and not any(told):
            return None
        servers = tuple(filter(None, (self.server or "").split(",")))
        return Access(servers, *told[1:], keys="none" if self.insecure else "given", copies=self.copies)

    @property
    def wire(self) -> str:
        """What connects the workers, in words."""
        if self.lab is not None:
            return f"lab, {self.lab}"
        return "loopback" if self.link is None else f"loopback, shaped in user space to {self.link}"

    def but(self, **changes: Any) -> RunConfig:
        """The same run with some values changed."""
        return replace(self, **changes)

    def save(self) -> None:
        """Write ``config.json`` into the run's folder; refuse a folder that cannot be written."""
        try:
            write_json(self.path / "config.json", asdict(self), indent=1)
        except OSError as error:
            raise ConfigError(f"{self.folder} cannot be written ({error.strerror}); name another --out") from None

    @classmethod
    def load(cls, folder: Path) -> RunConfig:
        """Read the configuration of a run."""
        path = folder / "config.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"{folder} is not a run: it has no config.json") from None
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from None
        known = {f.name for f in fields(cls)}
        if not isinstance(found, dict) or not set(found) <= known:
            raise ConfigError(f"{path} is not of this version of tightwire; start the run anew")
        return cls(**{**found, "folder": str(folder)})


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ConfigError(f"{name}={value}: it must be at least {least}")


def parse_recipe(text: str) -> tuple[str, dict[str, Any]]:
    """``name:key=value:key=value``.

    >>> parse_recipe("dgc:density=0.01:masking=off")
    ('dgc', {'density': 0.01, 'masking': 'off'})
    """
    name, *settings = text.split(":")
    params: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.isidentifier():
            raise ConfigError(f"{text!r}: {setting!r} is not key=value; write for example local-sgd:tau=5")
        params[key] = _value(value)
    return name, params


def _value(text: str) -> Any:
    from tightwire.recipes.words import number_or_word  # noqa: PLC0415 -- imports torch, which --help must not

    return number_or_word(text)


def show_recipe(name: str, params: dict[str, Any], codec: str | None = None) -> str:
    """The reverse of `parse_recipe`, with a codec of its own if it has one."""
    shown = ":".join([name, *(f"{key}={value}" for key, value in params.items())])
    return f"{shown} + {codec}" if codec else shown
