"""From a trained network to a file: what `tightwire shrink` does.

    source, data → compress.Pipeline (prune, share, polish; kept in the work folder) → file → checked → report

The file is read back, and the accuracy that the report gives is that of the network it holds.
"""

from __future__ import annotations

import json
import shutil
import time
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import nn

from tightwire.compress.pipeline import Pipeline, Sets, Shrunk, Told
from tightwire.compress.plan import Plan
from tightwire.compress.retrain import Training, evaluate
from tightwire.compress.size import dense_nbytes, layer_figures
from tightwire.compress.work import Work
from tightwire.data.augment import AugmentName
from tightwire.engines.config import ConfigError
from tightwire.engines.page import write_page
from tightwire.engines.shrink_file import Coded, architecture_of, read, write
from tightwire.engines.shrink_page import page
from tightwire.engines.shrink_policy import follow
from tightwire.engines.shrink_scan import scan_layers
from tightwire.engines.shrink_source import Source, find_source, make_sets
from tightwire.files import write_json

WEIGHT_DECAY = 0.2  # AdamW's, while pruning
SOFT = 0.5  # of the targets are the reference's own answers
_TIMED_S = 0.3


@dataclass(frozen=True)
class ShrinkConfig:
    """What to shrink, into which file, by which plan."""

    source: Path
    out: Path
    plan: Plan
    model: str | None = None
    options: tuple[str, ...] = ()
    data: str | None = None
    data_folder: str | None = None
    device: str = "cpu"
    augment: AugmentName = "none"
    policy: Path | None = None
    scan: bool = False
    work: Path | None = None
    overwrite: bool = False

    @property
    def folder(self) -> Path:
        """Where finished stages are kept."""
        return self.work or self.out.with_name(self.out.name + ".work")


@dataclass(frozen=True)
class Wish:
    """How small, and how to get there, as a command line says it; ``prune`` is the share that goes, not that stays."""

    prune: float | None = None
    quality: float | None = None
    bits: int = 4
    bit_cost: float = 0.01
    by: str = "adaptive"
    pattern: str = "fine"
    schedule: str = "cubic"
    ratio: float | None = None
    max_loss: float | None = None
    epochs: float = 30.0
    polish_epochs: float = 5.0
    lr: float = 2e-3
    seed: int = 0

    def plan(self) -> Plan:
        """The plan; refuses what has no meaning, in the words of the command line."""
        if not 1 <= self.bits <= 12:
            raise ConfigError(f"bits={self.bits}: a layer shares between 2 (1 bit) and 4096 (12 bits) values")
        if self.prune is not None and not 0 <= self.prune < 1:
            raise ConfigError(f"prune={self.prune}: give the share of weights to prune, at least 0 and below 1")
        if self.by not in ("layer", "network", "adaptive"):
            raise ConfigError(f"by={self.by!r} is not known; choose layer, network or adaptive")
        if min(self.epochs, self.polish_epochs) < 0 or self.lr <= 0:
            raise ConfigError(
                f"epochs={self.epochs} and polish-epochs={self.polish_epochs} must be at least 0, lr={self.lr} above 0"
            )
        return Plan(
            density=1 - self.prune if self.prune else None, by=cast(Literal["layer", "network", "adaptive"], self.by),
            quality=self.quality, pattern=self.pattern, schedule=self.schedule, centroids=1 << self.bits,
            bit_cost=self.bit_cost, ratio=self.ratio, max_loss=self.max_loss,
            retrain=Training(epochs=self.epochs, lr=self.lr, weight_decay=WEIGHT_DECAY, soft=SOFT, seed=self.seed),
            polish=Training(epochs=self.polish_epochs, lr=self.lr / 6, soft=SOFT, seed=self.seed + 1),
        )  # fmt: skip


def shrink_to_file(config: ShrinkConfig, *, told: Told) -> dict[str, Any]:
    """Shrink, write the file and the report, and return its figures."""
    if config.overwrite:
        shutil.rmtree(config.folder, ignore_errors=True)
    source = find_source(config.source, model=config.model, options=parse_options(config.options), data=config.data,
                         data_folder=config.data_folder)  # fmt: skip
    sets = None
    if source.data is not None:
        decide = config.plan.max_loss is not None
        sets = make_sets(source.data, device=config.device, decide=decide, augment=config.augment)
    network = source.model.to(config.device)
    scanned = scan_layers(network, sets, told) if config.scan else []
    speed_before = _samples_per_second(deepcopy(network).cpu(), source.inputs)
    plan, cut, digest = config.plan, None, source.digest
    if config.policy is not None:
        plan, cut, digest = follow(config.policy, source, plan, sets)
    sizer, teacher = Coded(architecture_of(source)), network if cut is not None else None
    pipeline = Pipeline(cut or network, plan, sets, Work(config.folder), sizer, told, teacher)
    shrunk = pipeline.run(digest)
    nbytes = write(config.out, source, shrunk)
    return _result(config, source, shrunk, sets, nbytes, speed_before, scanned)


def _result(
    config: ShrinkConfig,
    source: Source,
    shrunk: Shrunk,
    sets: Sets | None,
    nbytes: int,
    speed_before: float,
    scanned: list[dict[str, Any]],
) -> dict[str, Any]:
    """The figures of the file, read back; JSON and page beside it."""
    runs = read(config.out, source.inputs)
    result: dict[str, Any] = {
        "file": str(config.out),
        "nbytes": nbytes,
        "dense_nbytes": dense_nbytes(source.model),
        "ratio": dense_nbytes(source.model) / nbytes,
        "model": source.name,
        "data": source.data.name if source.data is not None else None,
        "seed": config.plan.retrain.seed,
        "plan": json.loads(config.plan.as_json()),
        "stages": shrunk.stages,
        "layers": layer_figures(shrunk.shared, Coded()),
        "samples_per_second": {"dense": speed_before, "file": _samples_per_second(runs, source.inputs)},
        "report": str(config.out.with_suffix(".html")),
        **({"sensitivity": scanned} if scanned else {}),
    }
    if sets is not None:
        test = sets.test
        on_cpu = type(test)(test.x_N.cpu(), test.y_N.cpu())
        result["test_accuracy"] = evaluate(runs, on_cpu).accuracy
        result["reference_accuracy"] = shrunk.stages[0]["test"]["accuracy"]
    write_page(page(result), config.out.with_suffix(".html"))
    write_json(config.out.with_suffix(".json"), result, indent=1)
    return result


def parse_options(given: tuple[str, ...]) -> dict[str, Any]:
    """KEY=VALUE, a number where it is one."""
    from tightwire.recipes.words import number_or_word  # noqa: PLC0415 -- only where an option is given

    found: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise ConfigError(f"{text!r} is not KEY=VALUE, such as norm=batch")
        found[key] = number_or_word(value)
    return found


@torch.no_grad()
def _samples_per_second(model: nn.Module, inputs: tuple[int, ...]) -> float:
    """One sample at a time, on the CPU."""
    x = torch.randn(1, *inputs)
    model.eval()
    model(x)
    taken, begin = 0, time.perf_counter()
    while (passed := time.perf_counter() - begin) < _TIMED_S:
        model(x)
        taken += 1
    return taken / passed
