"""The mean step of a recipe with a parameter server, and what bounds it.

    step ≥ compute + encode + (U + D)/B + serve + decode         one worker's cycle, with nobody in its way
    step ≥ (P − 1)·U/B,  (P − 1)·D/B                              the server's port, in and out
    step ≥ P·serve                                                the server itself
    step ≥ what cores must do                                     where workers share them

Who waits for whom is the schedule's affair, and no formula knows all schedules; so the step is that of short
simulations without stragglers, which run the schedule itself. Workers begin one after another, spread over a cycle:
those who began together would share every port in step for a long time, while in truth any difference grows, because
who is a little earlier at a port that is shared evenly leaves it twice as much earlier. Where ports
are shared unevenly, who meets whom there is a matter of luck: then the play is repeated, and the mean counts. The
bounds name the bottleneck.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tightwire.plan.jobs import Setting
from tightwire.plan.layout import Way
from tightwire.plan.prediction import Bottleneck, Parts, Prediction, serial_step_s, slowness
from tightwire.plan.simulate import play
from tightwire.plan.trace import Trace

_FULL = 0.85  # of the time: a port that carries so much is what all wait for
_PLAYED = 800  # worker-steps, about, of all plays
_FEW = 400  # of one play
_LEAST, _MOST = 6, 24  # steps of each worker


def predict_served(name: str, ways: Sequence[Way], setting: Setting) -> Prediction:
    """A few steps played, of every worker equally many, and who was busiest. The step is the mean over workers."""
    profile, workers = setting.profile, setting.workers
    periods = {period for way in ways for period in (way.push_every, way.pull_every) if way.pattern != "nobody"}
    stride = periods.pop() if len(periods) == 1 and all(way.pattern == "server" for way in ways) else 1
    period = max(periods, default=1)
    steps = max(_LEAST, min(_MOST, _FEW // workers))
    late = _cycle_s(ways, setting) / max(profile.compute_s, 1e-12) / workers
    plays = max(1, _PLAYED // (steps * workers)) if profile.overheads.uneven else 1
    traces = [
        play(name, ways, setting, steps=-(-steps // period) * period, evenly=max(1, stride), seed=seed,
             delays=lambda rank, step: 1.0 if step else 1 + rank * late)
        for seed in range(plays)
    ]  # fmt: skip
    step_s = sum(sum(trace.usual_s) for trace in traces) / len(traces) / workers / max(1, stride)
    trace = min(traces, key=lambda trace: abs(sum(trace.usual_s) / workers / max(1, stride) - step_s))
    parts = _parts(trace, step_s, setting)
    bottleneck: Bottleneck = "server port" if _port_s(trace, setting) > _FULL * trace.seconds else parts.largest
    tx, rx = _bytes(trace, max(1, stride))
    return Prediction(
        name, workers, step_s, parts, bottleneck, tx, rx, trace.mean_staleness, workers * profile.batch,
        serial_step_s(profile), profile.batch,
    )  # fmt: skip


def _cycle_s(ways: Sequence[Way], setting: Setting) -> float:
    """A step of one worker with nobody in its way, about."""
    moved = sum(way.nbytes for way in ways if way.pattern == "server")
    return setting.profile.compute_s + 2 * setting.cluster.outermost.seconds(moved)


def _port_s(trace: Trace, setting: Setting) -> float:
    """What the busiest port carries, in and out, in seconds: where all push and then all read, one way rests."""
    carried = Counter[str]()
    for name, nbytes in trace.port_nbytes.items():
        carried[name.rpartition(" ")[0]] += nbytes
    return max(carried.values(), default=0) / setting.cluster.outermost.bytes_per_s


def _bytes(trace: Trace, stride: int) -> tuple[float, float]:
    """A worker's bytes in a step."""
    steps = stride * len(trace.step_s)
    return sum(trace.tx_nbytes) / steps, sum(trace.rx_nbytes) / steps


def _parts(trace: Trace, step_s: float, setting: Setting) -> Parts:
    """What workers did outside of their passes, in proportion."""
    profile = setting.profile
    compute_s = min(step_s, (profile.compute_s + profile.overheads.step_s) * slowness(setting))
    used = Counter[str]()
    for span in trace.spans:
        if span.rank >= 0 and span.kind != "compute":
            used[span.kind] += span.end_s - span.start_s  # type: ignore[assignment]
    share = (step_s - compute_s) / (sum(used.values()) or 1.0)
    moving = (used["send"] + used["wait"] + used["down"]) * share
    return Parts(compute_s, used["encode"] * share, moving, used["decode"] * share, used["update"] * share)
