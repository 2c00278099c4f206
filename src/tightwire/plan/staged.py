"""A model cut into stages: how long a batch takes, from the split's own timetable.

    F(m, s) begins when stage s is free and F(m, s−1) has come;  B(m, s) when it is free and B(m, s+1) has come
    step = max( time between two batches,  bytes at a port ÷ B,  Σ over stages ÷ cores )

A split model works on one minibatch of the batches of all workers together, or on its microbatches one after another.
Chen, Eversole, Li, Yu, Seide: Pipelined Back-Propagation. Interspeech 2012. Harlap et al.: PipeDream. 2018.
"""

from __future__ import annotations

from tightwire.algebra.split import Split
from tightwire.plan.jobs import Setting
from tightwire.plan.layout import Way
from tightwire.plan.prediction import Bottleneck, Parts, Prediction, serial_step_s, slowness
from tightwire.plan.simulate import play
from tightwire.plan.stage_costs import StageCost, stages_of
from tightwire.splits.timetable import orders

_PLAYED = 16  # steps
_BATCHES = 6  # for each stage: enough for a stream to become steady


def batch_s(stages: list[StageCost], split: Split, crossing_s: list[float]) -> float:
    """Time between two batches, when the pipeline runs steadily or, if each is flushed, of each."""
    pieces = split.microbatches
    if split.flush:
        return max(_walk(stages, split, crossing_s, pieces))
    many = _BATCHES * split.stages
    ends = _walk(stages, split, crossing_s, (2 * many) * pieces)[::pieces]
    return (ends[-split.stages] - ends[many]) / (len(ends) - split.stages - many)


def _walk(stages: list[StageCost], split: Split, crossing_s: list[float], minibatches: int) -> list[float]:
    """When the first stage is done with each minibatch, updates after each batch's last backward pass included."""
    rows = orders(split, minibatches)
    places = [0] * len(rows)
    free, done = [0.0] * len(rows), dict[tuple[str, int, int], float]()
    moved = True
    while moved:
        moved = False
        for s, row in enumerate(rows):
            while places[s] < len(row):
                kind, m = row[places[s]]
                before = s - 1 if kind == "F" else s + 1
                if 0 <= before < len(rows):
                    if (kind, before, m) not in done:
                        break
                    come = done[kind, before, m] + crossing_s[min(s, before)]
                else:
                    come = 0.0
                seconds = stages[s].forward_s if kind == "F" else stages[s].backward_s
                over = kind == "B" and m % split.microbatches == split.microbatches - 1
                done[kind, s, m] = max(free[s], come) + seconds
                free[s] = done[kind, s, m] + (stages[s].update_s if over else 0.0)
                places[s] += 1
                moved = True
    first = [done["B", 0, m] for m in range(minibatches)]
    return [*first[:-1], max(first[-1], *free)] if split.flush else first


def predict_staged(name: str, way: Way, setting: Setting) -> Prediction:
    """The mean step."""
    profile, cluster, workers, split = setting.profile, setting.cluster, setting.workers, way.recipe.split
    stages, pieces = stages_of(way, setting), split.microbatches
    stages = [
        StageCost(s.forward_s / speed, s.backward_s / speed, s.update_s / speed, s.out_nbytes)
        for s, speed in zip(stages, map(cluster.speed_of, range(workers)), strict=True)
    ]
    crossing = [cluster.link(s, s + 1).seconds(stages[s].out_nbytes) for s in range(workers - 1)]
    sent = [pieces * (stage.out_nbytes + (stages[s - 1].out_nbytes if s else 0)) for s, stage in enumerate(stages)]
    work = [pieces * (stage.forward_s + stage.backward_s) + stage.update_s for stage in stages]
    port = max(sent[s] / cluster.link(s, s - 1 if s else s + 1).bytes_per_s for s in range(workers))
    cores = sum(work) / workers * slowness(setting) if cluster.cores is not None else 0.0
    step = max(batch_s(stages, split, crossing), port, cores)
    if cluster.cores is not None:  # stages of different lengths share cores as only a simulation knows
        step = max(step, play(name, [way], setting, steps=_PLAYED, most_spans=0).steady_step_s)
    bottleneck: Bottleneck = "cores" if cores >= 0.9 * step else "stage" if step <= 1.01 * max(work) else "exchange"
    update, mean = sum(stage.update_s for stage in stages) / workers, sum(work) / workers
    parts = Parts(compute_s=mean - update, update_s=update, wait_s=step - mean)
    nbytes = sum(sent) / workers
    staleness = sum(split.delay(stage) for stage in range(workers)) / workers
    return Prediction(
        name, workers, step, parts, bottleneck, nbytes, nbytes, staleness, workers * profile.batch,
        serial_step_s(profile), profile.batch,
    )  # fmt: skip
