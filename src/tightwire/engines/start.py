"""Start a run in the way that fits it, and say how it ended."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

from tightwire.algebra.errors import TightwireError
from tightwire.algebra.recipe import changes_at, leaves
from tightwire.engines.config import ConfigError, RunConfig
from tightwire.engines.delays import parse_delays
from tightwire.engines.outcome import Outcome, clear_outcomes, read_outcomes
from tightwire.engines.rate import lr_of
from tightwire.engines.recipe import make_recipe, runs_apart
from tightwire.recipes.catalogue import CATALOGUE


class RunFailed(TightwireError):  # noqa: N818 -- reads as what happened
    """A run ended without a result; the text says why."""


class RunDiverged(TightwireError):  # noqa: N818
    """A run ended, and its answer is no network."""

    def __init__(self, config: RunConfig, steps: int) -> None:
        super().__init__(
            f"the run diverged: after {steps} steps its answer is not finite; lower --lr (it was {lr_of(config):g}), "
            f"give --clip 1, or a larger --batch (it was {config.batch}); what it wrote is in {config.folder}"
        )


class RunStopped(TightwireError):  # noqa: N818
    """Somebody stopped a run; it can be resumed."""

    def __init__(self, step: int, folder: str) -> None:
        super().__init__(f"stopped at step {step}; go on with: tightwire resume {folder}")


def fresh_folder(config: RunConfig, *, overwrite: bool, named: bool) -> None:
    """Make room for a new run; a folder that holds one is only cleared if that was asked for, or it was not named."""
    if not (config.path / "config.json").exists():
        return
    if named and not overwrite:
        raise ConfigError(
            f"{config.folder} holds a run; go on with it (tightwire resume {config.folder}), name another --out, or "
            "give --overwrite"
        )
    for name in ("events", "checkpoints", "logs", "outcome"):
        shutil.rmtree(config.path / name, ignore_errors=True)
    for name in ("result.json", "plan.json", "model.safetensors", "stop"):
        (config.path / name).unlink(missing_ok=True)


def prepare(config: RunConfig) -> RunConfig:
    """Check what can be checked before anything starts, and give the run its folder."""
    from tightwire.engines.workload import make_workload

    recipe = make_recipe(config)
    entry = CATALOGUE[config.recipe]
    split = max((leaf.recipe.split for leaf in leaves(recipe)), key=lambda split: split.stages)
    if split.stages > 1 and config.workers != split.workers:
        raise ConfigError(
            f"{config.recipe} has {split.stages} stages for {split.workers} workers and {config.workers} workers: use "
            f"--workers {split.workers}, or {config.recipe}:stages={config.workers}"
        )
    slow = parse_delays(config.delays, config.straggler, config.seed).slowdown
    if slow and max(slow) >= config.workers:
        raise ConfigError(f"straggler={config.straggler}: there are {config.workers} workers, counted from 0")
    if config.samples is not None and changes_at(recipe) and runs_apart(recipe):
        raise ConfigError(
            f"samples={config.samples}: the phases of {entry.name} change at a step, which workers that run apart "
            "reach at different samples; give --steps or --epochs"
        )
    make_workload(config)
    config.save()
    clear_outcomes(config.path)
    return config


def run(config: RunConfig, *, resume: bool = False) -> dict[str, Any]:
    """Run to the end and return the result; raise `RunFailed` or `RunStopped`."""
    prepare(config)
    _engine(config)(config, resume=resume)
    return judge(config, read_outcomes(config.path))


def _engine(config: RunConfig) -> Callable[..., None]:
    if config.lab is not None:
        from tightwire.engines.labbed import run_lab

        return run_lab
    if config.engine == "inside" or (config.workers == 1 and config.server is None):
        from tightwire.engines.inside import run_inside

        return run_inside
    from tightwire.engines.local import run_processes

    return run_processes


def judge(config: RunConfig, outcomes: dict[int, Outcome]) -> dict[str, Any]:
    """The result, or the reason why there is none."""
    errors = [outcome.text for outcome in outcomes.values() if outcome.ended == "error"]
    if errors:
        raise RunFailed(min(errors, key=_hearsay))
    stopped = [outcome.step for outcome in outcomes.values() if outcome.ended == "stopped"]
    if stopped:
        raise RunStopped(stopped[0], config.folder)
    if 0 not in outcomes or outcomes[0].result is None:
        missing = sorted(set(range(config.workers)) - set(outcomes))
        logs = config.path / "logs"
        raise RunFailed(f"worker {missing[0] if missing else 0} ended without a word; its last ones are in {logs}")
    return outcomes[0].result


def _hearsay(text: str) -> int:
    """Errors about others are less telling than errors of one's own."""
    return sum(word in text for word in ("lost its connection", "no sign of life", "waited", "failed while"))


def under_torchrun() -> bool:
    """True if somebody else already started the workers."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ
