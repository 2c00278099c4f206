"""The training script that `tightwire train` runs in every worker: join, shard, backward, step, answer.

It is what a user would write, plus saving, stopping and measuring. Nothing in it depends on how workers were started.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, Literal, get_args

import torch
from safetensors.torch import save_file
from torch import Tensor

from tightwire.algebra.grain import whole
from tightwire.algebra.recipe import Recipe, leaves
from tightwire.data import Data
from tightwire.engines.budget import Budget
from tightwire.engines.config import RunConfig
from tightwire.engines.delays import parse_delays
from tightwire.engines.evaluate import are_finite, score
from tightwire.engines.faults import everyones_faults
from tightwire.engines.measure import Bracket
from tightwire.engines.outcome import Outcome, stop_file, write_result
from tightwire.engines.rate import rate_of
from tightwire.engines.recipe import make_recipe
from tightwire.engines.recorded import recorded
from tightwire.engines.workload import criterion, cuttable, draw_apart, make_loader, make_optimizer, make_workload
from tightwire.files import write_json, writing
from tightwire.lab.rate import parse_rate
from tightwire.links.shaped import Pace
from tightwire.run import checkpoint
from tightwire.run.join import join
from tightwire.run.settings import Settings
from tightwire.run.wire import Wire
from tightwire.telemetry.sinks import JsonLines, Several, Sink
from tightwire.telemetry.tensorboard import TensorBoard

IN_PROCESS = "in-process"  # the link of workers that take turns
LOOK_EVERY = 10  # steps between two looks for a reason to stop; each costs a tiny message
KEEP = 2  # checkpoints
Wish = Literal["stop", "save", "end"]
WISHES: tuple[Wish, ...] = get_args(Wish)  # the first of them that anybody has is granted


def train(config: RunConfig, *, rank: int, link: str, resume: bool) -> Outcome:
    """Train as one worker. ``link`` names what connects the workers; the outcome of rank 0 carries the result."""
    recipe = make_recipe(config)
    data, model = make_workload(config)
    draw_apart(config, rank)
    optimizer = make_optimizer(config, model)
    settings = Settings(
        config.seed,
        exchange_timeout_s=config.timeout_s,
        events=_sink(config, rank),
        pace=_pace(config),
        access=config.access,
    )
    stages = max(leaf.recipe.split.stages for leaf in leaves(recipe))
    at_once = _recorded(config, link, stages)
    if at_once and isinstance(recipe, Recipe):
        recipe = recipe.but(grain=whole())  # all gradients come together: nothing is gained by sending some first
    with (
        recorded(model) if at_once else nullcontext(),
        join(recipe, cuttable(config, model, data, stages=stages), optimizer, settings=settings) as wire,
    ):
        worker = _Worker(config, data, wire, optimizer, Bracket(wire, link))
        worker.begin(resume)
        if worker.train():
            return Outcome("stopped", step=wire.clock)
        result = worker.result()
    if rank == 0:
        with writing(config.path / "model.safetensors") as partial:
            save_file({name: t.detach().cpu().clone() for name, t in model.state_dict().items()}, partial)
        write_result(config.path, result)
    return Outcome("done", step=wire.clock, result=result)


def _recorded(config: RunConfig, link: str, stages: int) -> bool:
    """Whether passes are recorded: many short ones of our own networks on a GPU, where nothing is sent meanwhile."""
    ours = ":" not in config.model and config.data != "text"
    return config.device == "cuda" and link == IN_PROCESS and stages == 1 and ours


def _sink(config: RunConfig, rank: int) -> Sink:
    lines = JsonLines(config.path / "events" / f"rank-{rank}.jsonl")
    if not config.tensorboard:
        return lines
    return Several(lines, TensorBoard(config.path / "tensorboard" / f"rank-{rank}"))


def _pace(config: RunConfig) -> Pace | None:
    if config.link is None:
        return None
    rate = parse_rate(config.link)
    return Pace(rate.bits_per_second, rate.latency_s)


class _Worker:
    """One worker's part of a run."""

    def __init__(
        self, config: RunConfig, data: Data, wire: Wire, optimizer: torch.optim.Optimizer, bracket: Bracket
    ) -> None:
        self._config = config
        self._data = data
        self._wire = wire
        self._optimizer = optimizer
        self._bracket = bracket
        self._delays = parse_delays(config.delays, config.straggler, config.seed)
        self._held_up = config.delays is not None or config.straggler is not None
        self._rate = rate_of(config)
        self._base_lr = float(optimizer.param_groups[0]["lr"])
        workers = wire.size // wire.replicas if wire.pipeline is not None else wire.size
        self._share = wire.shard(make_loader(config, data, workers=workers, split=wire.pipeline is not None))
        self._budget = Budget(config, wire, self._share)
        self._samples_before = 0

    def begin(self, resume: bool) -> None:
        """Go on from the last checkpoint, or write the first: a folder that refuses it says so before training."""
        folder = self._config.path / "checkpoints"
        if self._wire.rank == 0:
            write_json(self._config.path / "plan.json", {"steps": self._budget.steps})
        if resume and checkpoint.latest(folder) is not None:
            self._wire.load(folder)
        else:
            self._wire.save(folder)
        self._budget.begin()
        self._samples_before = self._budget.samples

    def train(self) -> bool:
        """Step until the end, or until nothing is left to train; True if somebody wanted to stop before it."""
        self._wire.model.train()
        self._bracket.begin()
        for x, y in self._batches():
            self._set_rate()
            self._delays.hold_up(self._wire.rank, self._wire.clock, asked=self._held_up)
            loss = self._wire.batch(x, y, criterion(self._data))
            if self._config.clip is not None:
                self._wire.clip(self._config.clip)
            self._wire.step(loss)
            self._budget.took(len(y))
            heard = self._heard(loss) if self._wire.clock % LOOK_EVERY == 0 else None
            if heard == "lost":
                break
            if (heard or self._budget.save_due) and self._meet(heard or "save") == "stop":
                return True
        self._wire.drain()
        while (wish := self._meet("end")) != "end":  # others may need this worker to save with them
            if wish == "stop":
                return True
        self._bracket.end()
        return False

    def _meet(self, wish: Wish) -> Wish:
        """Come together, each for a reason; what most needs to be done is done by all, and returned.

        Workers that run apart come for different reasons: one is done, another wants to save.
        """
        if not self._wire.lockstep:
            heard = [said.decode() for said in self._wire.everyones(wish.encode())]
            wish = next(most for most in WISHES if most in heard)
        if wish != "end":
            self._save()
        return wish

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Epoch after epoch, until the last step."""
        while not self._budget.is_over():
            if self._data.task == "language":
                self._wire.model.reset()  # type: ignore[operator]
            for x, y in self._share:
                yield x.to(self._config.device), y.to(self._config.device)
                if self._budget.is_over():
                    return

    def _set_rate(self) -> None:
        factor = self._rate.factor(self._budget.passed)
        for group in self._optimizer.param_groups:
            group["lr"] = self._base_lr * factor

    def _heard(self, loss: Tensor | None) -> Literal["stop", "lost"] | None:
        """Whether somebody wants to stop, or has weights that are not finite, which no step and no mean ever mends.

        Workers that run apart are not asked: a server refuses what is not finite; who shares memory waits for nobody.
        """
        wanted = stop_file(self._config.path).exists()
        if not self._wire.lockstep:
            return "stop" if wanted else None
        lost = loss is not None and not bool(loss.isfinite()) and not are_finite(self._wire.model)
        if not self._wire.agree(wanted or lost):
            return None
        return "lost" if self._wire.agree(lost) else "stop"

    def _save(self) -> None:
        folder = self._config.path / "checkpoints"
        with self._bracket.pause():
            self._wire.save(folder)
            if self._wire.rank == 0:
                checkpoint.keep_newest(folder, KEEP)
        self._budget.saved()

    def result(self) -> dict[str, Any]:
        """The figures of the run; all workers compute them together."""
        config, seconds = self._config, self._bracket.seconds
        self._budget.look()  # everybody has stopped
        figure = score(self._wire, self._data, config.device)
        staleness = self._wire.staleness()  # before the next meeting: afterwards workers leave, with a last push
        return {
            "recipe": config.recipe,
            "params": config.params,
            **({"codec": config.codec} if config.codec else {}),
            **({"plan": config.plan} if config.plan else {}),
            "workers": self._wire.size,
            "model": config.model,
            "data": config.data,
            "shards": config.shards,
            "seed": config.seed,
            "steps": self._wire.clock,
            "samples": self._budget.samples,
            "epochs": self._share.epochs,
            "seconds": seconds,
            **({} if self._bracket.pretended is None else {"pretended_seconds": self._bracket.pretended}),
            "samples_per_second": (self._budget.samples - self._samples_before) / seconds if seconds else None,
            **figure,
            "wire": self._bracket.summary(),
            "staleness": staleness,
            "faults": {
                "restarts": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
                **everyones_faults(self._wire),
            },
        }
