"""The mean step of recipes whose workers exchange among themselves, in closed form: what hides behind what.

    forward │ backward ─────────────┤ update       a bucket leaves when its last gradient is there, in bucket order;
            │   ready 0   ready 1  ready 2         one comm thread takes them one after another:
            │     └─ job 0 ──┴─ job 1 ──┴─ job 2 ┤      end_i = max(ready_i, end_{i−1}) + job_i
                                    exposed └────┘

    step = max(compute + exposed + update,  all that a core must do)

Where workers share cores, what hides behind a computation still needs a core: while a job runs, the passes advance by
the share of the cores that it leaves them (`beside`). A job is a sum
of α–β–γ prices of the runtime's own transfers (`plan.jobs`, `plan.moves`). Exchanges every τ steps count 1/τ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

from tightwire.plan.jobs import Move, Setting, Stage, kept_job_of
from tightwire.plan.layout import Way
from tightwire.plan.moves import price, rounds_of
from tightwire.plan.prediction import Bottleneck, Parts, Prediction, serial_step_s, slowness


@dataclass(frozen=True)
class Spent:
    """What the jobs of a step take: their end, their parts, what cores do, and bytes sent by all."""

    seconds: float = 0.0
    encode_s: float = 0.0
    exchange_s: float = 0.0
    decode_s: float = 0.0
    busy_s: float = 0.0
    nbytes: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        """One after the other."""
        return Spent(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def shown(self, seconds: float) -> Spent:
        """As if only so much of its time could be seen; cores are as busy and bytes as many."""
        factor = seconds / max(self.encode_s + self.exchange_s + self.decode_s, 1e-12)
        parts = (factor * self.encode_s, factor * self.exchange_s, factor * self.decode_s)
        return Spent(seconds, *parts, busy_s=self.busy_s, nbytes=self.nbytes)

    def times(self, factor: float) -> Spent:
        """So many of it."""
        return Spent(*(getattr(self, f.name) * factor for f in fields(self)))


def predict_together(name: str, ways: Sequence[Way], setting: Setting) -> Prediction:
    """Collectives, alone or beside each other."""
    profile, cluster, workers = setting.profile, setting.cluster, setting.workers
    slow = slowness(setting)
    speeds = [cluster.speed_of(rank) for rank in range(workers)]
    mean = slow * sum(1 / speed for speed in speeds) / workers
    lockstep = any(way.collective and way.push_every for way in ways) and workers > 1
    pace = slow / min(speeds) if lockstep else mean  # everybody waits for the slowest
    passes = profile.compute_s + profile.overheads.step_s
    early = [way for way in ways if way.early and way.collective and workers > 1]
    late = [way for way in ways if not way.early and way.collective and way.push_every and workers > 1]
    collected = sum(way.nbytes for way in early) * profile.overheads.add_byte_s
    exposed = _overlapped(early, setting, slow, pace, (passes + collected) * pace)
    after = Spent()
    for way in late:
        spent = _averaged(way, setting, slow, passes * pace)
        after += spent.times(1 / way.push_every)
    parts = Parts(
        (passes + collected) * mean, exposed.encode_s + after.encode_s, exposed.exchange_s + after.exchange_s,
        exposed.decode_s + after.decode_s, profile.update_s * mean, (passes + profile.update_s) * (pace - mean),
    )  # fmt: skip
    busy = (passes + collected + profile.update_s) * mean + (exposed.busy_s + after.busy_s) * slow
    nbytes = (exposed.nbytes + after.nbytes) / workers
    if busy > parts.total_s and cluster.cores is not None:
        parts = replace(parts, exchange_s=parts.exchange_s + busy - parts.total_s)
        return _prediction(name, setting, _in_step(parts, early, late, setting), "cores", nbytes)
    return _prediction(name, setting, _in_step(parts, early, late, setting), parts.largest, nbytes)


def _in_step(parts: Parts, early: Sequence[Way], late: Sequence[Way], setting: Setting) -> Parts:
    """Who shares cores and keeps step wants the same memory at the same moment: a pass before an exchange is slower."""
    if setting.cluster.cores is None:
        return parts
    often = max([1.0 if early else 0.0, *(1 / way.push_every for way in late)])
    return replace(parts, wait_s=parts.wait_s + often * setting.profile.overheads.sync_s)


def _prediction(name: str, setting: Setting, parts: Parts, bottleneck: Bottleneck, nbytes: float) -> Prediction:
    return Prediction(
        name, setting.workers, parts.total_s, parts, bottleneck, nbytes, nbytes, 0.0,
        setting.workers * setting.profile.batch, serial_step_s(setting.profile), setting.profile.batch,
    )  # fmt: skip


def _overlapped(early: Sequence[Way], setting: Setting, slow: float, pace: float, passes_s: float) -> Spent:
    """Buckets that leave during the backward pass, and what of them is exposed after it."""
    queue = sorted(((way, load) for way in early for load in way.loads), key=lambda entry: -entry[1].place)
    total, jobs = Spent(), list[Job]()
    forward_s = passes_s - setting.profile.backward_s * pace
    for way, load in queue:
        spent = stages_s(kept_job_of(way, load, setting), setting, slow)
        lasts = spent.seconds + setting.profile.overheads.job_s * slow
        jobs.append(Job(forward_s + load.ready_s * pace, lasts, spent.busy_s * slow if setting.shares_cores else 0.0))
        total += spent
    return total.shown(beside(jobs, passes_s) - passes_s)


@dataclass(frozen=True)
class Job:
    """It may begin when the passes have come so far; how long it lasts, and what of that all cores must do for it."""

    ready_s: float
    seconds: float
    busy_s: float = 0.0


def beside(jobs: Sequence[Job], passes_s: float) -> float:
    """When the passes and all jobs are over, if jobs run one after another and take the cores they need.

    >>> beside([Job(1.0, 3.0)], 4.0), beside([Job(1.0, 3.0, 3.0)], 4.0), beside([Job(4.0, 3.0, 3.0)], 4.0)
    (4.0, 7.0, 7.0)
    """
    now = done = 0.0  # the time, and how far the passes are
    for job in jobs:
        now, done = now + max(0.0, job.ready_s - done), max(done, job.ready_s)
        left = max(0.0, job.seconds - job.busy_s)
        now, done = now + job.seconds, min(passes_s, done + left)
    return now + max(0.0, passes_s - done)


def _averaged(way: Way, setting: Setting, slow: float, passes_s: float) -> Spent:
    """All buckets of a lane that sends its weights, one exchange; beside the passes where that is known ahead."""
    costs = setting.profile.overheads
    total = Spent()
    for load in way.loads:
        spent = stages_s(kept_job_of(way, load, setting), setting, slow)
        moved = 3 * load.spec.nbytes * costs.add_byte_s  # fill the bucket, move the centre, adopt it
        total += spent + Spent((moved + costs.job_s) * slow, decode_s=moved * slow, busy_s=moved)
    ahead = way.plain and way.recipe.schedule.due(way.push_every - 1).before_local
    if not ahead:
        return total.shown(total.seconds)
    job = Job(0.0, total.seconds, total.busy_s * slow if setting.shares_cores else 0.0)
    return total.shown(beside([job], passes_s) - passes_s)


def stages_s(stages: Sequence[Stage], setting: Setting, slow: float) -> Spent:
    """The stages of one job, every rank at its own pace until it must wait for others."""
    clock = dict.fromkeys(range(setting.workers), 0.0)
    encode = exchange = decode = busy = nbytes = 0.0
    tiers = setting.cluster.tiers
    sizes = tuple(tier.size for tier in tiers)
    for stage in stages:
        if isinstance(stage, Move):
            rounds = rounds_of(stage.graph, stage.groups, sizes)
            cost = price(
                rounds, stage.part_nbytes, stage.most_nbytes, stage.frame_nbytes, tiers=tiers,
                costs=setting.profile.overheads, native=stage.native, slow=partial(slowness, setting),
            )  # fmt: skip
            for group in stage.groups:
                then = max(clock[rank] for rank in group) + cost.seconds
                clock.update(dict.fromkeys(group, then))
            exchange, nbytes = exchange + cost.seconds, nbytes + cost.nbytes
            busy += cost.busy_s / setting.workers
            continue
        for rank in stage.ranks:
            clock[rank] += stage.seconds * slow / setting.cluster.speed_of(rank)
        busy += stage.seconds * len(stage.ranks) / setting.workers
        if stage.kind == "encode":
            encode += stage.seconds * slow
        else:
            decode += stage.seconds * slow
    return Spent(max(clock.values()), encode, exchange, decode, busy, nbytes)
