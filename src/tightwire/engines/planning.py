"""A plan from what was asked to what is said: profile the network (or read a profile), rank, sweep, simulate."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from tightwire.algebra.threads import threads
from tightwire.engines.calibration import overheads_here
from tightwire.engines.example import Example, find_example, loss
from tightwire.engines.forked import preload
from tightwire.plan.advice import Plan
from tightwire.plan.breakeven import sweep
from tightwire.plan.candidates import candidates
from tightwire.plan.cluster import Cluster, flat, load_cluster, parse_link
from tightwire.plan.codings import with_codings
from tightwire.plan.errors import PlanError
from tightwire.plan.measure import profile_model
from tightwire.plan.profile import Profile
from tightwire.plan.search import OBJECTIVES, Aim, Objective, rank
from tightwire.plan.simulate import simulate
from tightwire.plan.trace import Trace
from tightwire.recipes.catalogue import find

LINK = "1gbit"
_LANES = 8  # workers in a drawn timeline
_STEPS = 3
_CODED = 1 << 19  # elements on which codecs are timed
Told = Callable[[str], None]


@dataclass(frozen=True)
class PlanConfig:
    """What a plan is asked for."""

    model: str
    workers: tuple[int, ...] = (1, 2, 4, 8)
    link: str | None = None
    cluster: Path | None = None
    data: str | None = None
    data_folder: str | None = None
    batch: int = 16
    device: str = "cpu"
    profile: Path | None = None
    save_profile: Path | None = None
    objective: Objective = "time"
    recipes: tuple[str, ...] = ()
    samples: int | None = None

    def __post_init__(self) -> None:
        for name in self.recipes:
            find(name)
        if not self.workers or min(self.workers) < 1:
            raise PlanError(
                f"workers={','.join(map(str, self.workers))}: a plan needs at least 1; give --workers 1,2,4"
            )
        if self.batch < 1:
            raise PlanError(f"batch={self.batch}: a worker computes on at least 1 sample; give a positive --batch")
        if self.objective not in OBJECTIVES:
            raise PlanError(f"objective={self.objective}: give one of {', '.join(OBJECTIVES)}")
        if self.link is not None and self.cluster is not None:
            raise PlanError(f"link={self.link} and cluster={self.cluster}: the file has links of its own; give one")
        if self.samples is not None and self.samples < 1:
            raise PlanError(f"samples={self.samples}: an epoch has at least 1; give a positive number")


def make_plan(config: PlanConfig, *, told: Told = lambda text: None, cluster: Cluster | None = None) -> Plan:
    """Everything a plan finds. ``cluster`` takes the place of the one that the configuration names."""
    where = cluster or find_cluster(config)
    found, samples = find_profile(config, told)
    profile = shared(found, where)
    told("predicting every recipe")
    aim = Aim(config.objective, config.samples or samples or 1_000_000)
    counts = sorted(set(config.workers))
    rankings = tuple(rank(profile, where, count, aim=aim, names=config.recipes) for count in counts)
    told("comparing them at every bandwidth")
    return Plan(profile, where, rankings, sweep(profile, where, rankings[-1]))


def shared(profile: Profile, cluster: Cluster) -> Profile:
    """The profile where workers share cores, each with a thread of its own, if nobody has measured what that costs."""
    if cluster.cores is None or max(profile.slowdown) > 1:
        return profile
    return profile.but(slowdown={1: 1.0, cluster.sharing: max(1.0, cluster.sharing / cluster.cores)})


def find_cluster(config: PlanConfig) -> Cluster:
    """The cluster of the file, or hosts on a switch with one link each."""
    if config.cluster is not None:
        return load_cluster(config.cluster)
    text = config.link or LINK
    return flat(parse_link(text), name=text)


def find_profile(config: PlanConfig, told: Told = lambda text: None) -> tuple[Profile, int | None]:
    """The profile of the file, or of the network on this machine; and how many samples an epoch has, if known."""
    if config.profile is not None:
        return Profile.load(config.profile), None
    told(f"timing {config.model} on this machine")
    preload(now=True)  # what the two workers load, who measure messages later
    example = find_example(
        config.model, batch=config.batch, data=config.data, data_folder=config.data_folder, device=config.device
    )
    profile = _measure(config, example, told)
    if config.save_profile is not None:
        profile.save(config.save_profile)
    return profile, example.samples


def _measure(config: PlanConfig, example: Example, told: Told) -> Profile:
    """Time network, codecs and messages as workers would find them: with as many threads."""
    with threads(int(os.environ.get("OMP_NUM_THREADS", "1"))):
        optimizer = torch.optim.SGD(example.model.parameters(), lr=0.05, momentum=0.9)
        profile = profile_model(example.model, (example.x, example.y), loss, optimizer, name=config.model)
        told("timing codecs on its gradients")
        tried = [one for count in config.workers for one in candidates(count, names=config.recipes)]
        wanted = [one.recipe for one in tried if one.able]
        profile = with_codings(profile, example.model, wanted, repeats=2, enough=_CODED)
    told("timing messages between two workers")
    return profile.but(overheads=overheads_here())


def timelines(plan: Plan) -> list[Trace]:
    """The first steps of plain synchronous SGD and of what is advised, on as many workers as can be drawn."""
    ranking = plan.chosen
    plain = ranking.row("sync-sgd")
    rows = [ranking.advised] if plain is None else [plain, ranking.advised]
    unique = {str(row.candidate): row.candidate for row in rows}
    workers = min(ranking.workers, _LANES)
    return [simulate(one.recipe, plan.profile, plan.cluster, workers, steps=_STEPS) for one in unique.values()]


def command_of(config: PlanConfig, plan: Plan) -> str:
    """What runs the winner: here in the lab, or on hosts of one's own."""
    ranking = plan.chosen
    words = ["train", "--recipe", str(ranking.advised.candidate), "--model", config.model or plan.profile.model]
    words += ["--data", config.data] if config.data else []
    words += ["--data-folder", config.data_folder] if config.data_folder else []
    words += ["--batch", str(plan.profile.batch)]
    words += ["--device", config.device] if config.device != "cpu" else []
    if config.cluster is not None and ranking.workers > 1:
        per_host = plan.cluster.hosts(ranking.workers).count(0)
        return (
            f"torchrun --nnodes {-(-ranking.workers // per_host)} --nproc-per-node {per_host} --rdzv-backend c10d "
            f"--rdzv-endpoint HOST:29400 -m tightwire {' '.join(words)}"
        )
    where = ["--workers", str(ranking.workers)]
    if ranking.workers > 1:
        where += ["--lab", config.link or LINK]
    return " ".join(["tightwire", *words, *where])
