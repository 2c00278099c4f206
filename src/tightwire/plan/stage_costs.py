"""What each stage of a split model takes and passes on: the split's cuts, on the profiled layers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from tightwire.plan.errors import PlanError
from tightwire.plan.jobs import Setting
from tightwire.plan.layout import Way
from tightwire.splits.boundary import HEADER_INTS
from tightwire.splits.stages import balanced_cuts

_HEADER_NBYTES = 8 * HEADER_INTS


@dataclass(frozen=True)
class StageCost:
    """One stage and one minibatch (or microbatch); ``out_nbytes`` is what it passes on, and gets back as an error."""

    forward_s: float
    backward_s: float
    update_s: float  # of a whole batch
    out_nbytes: int


def stages_of(way: Way, setting: Setting) -> list[StageCost]:
    """The stages that the recipe's split makes of the profiled layers, software included."""
    profile, split, workers = setting.profile, way.recipe.split, setting.workers
    layers, costs = profile.layers, profile.overheads
    _refuse(way, setting)
    cuts = split.cut.cuts or balanced_cuts([layer.nparams for layer in layers], split.stages)
    pieces = split.microbatches
    more = profile.compute_of(profile.batch * workers / pieces) / profile.compute_s
    loss_s = max(0.0, profile.compute_s - sum(layer.forward_s + layer.backward_s for layer in layers))
    made: list[StageCost] = []
    for lo, hi in pairwise((0, *cuts, len(layers))):
        inside = layers[lo:hi]
        last = hi == len(layers)
        out = 0 if last else round(workers * inside[-1].activation_nbytes / pieces) + _HEADER_NBYTES
        back = made[-1].out_nbytes if made else 0
        made.append(StageCost(
            more * sum(layer.forward_s for layer in inside) + _moving(out, costs.message_s, costs.byte_s),
            more * (sum(layer.backward_s for layer in inside) + (loss_s if last else 0.0))
            + _moving(back, costs.message_s, costs.byte_s),
            sum(layer.update_s for layer in inside) + costs.step_s,
            out,
        ))  # fmt: skip
    return made


def _moving(nbytes: int, message_s: float, byte_s: float) -> float:
    """Header and body, if there is anything to send."""
    return 2 * message_s + byte_s * nbytes if nbytes else 0.0


def _refuse(way: Way, setting: Setting) -> None:
    profile, split, name = setting.profile, way.recipe.split, way.recipe.name
    if not profile.sequential:
        raise PlanError(f"{profile.model} is no nn.Sequential, so {name} cannot cut it; use a recipe without split")
    if split.workers != setting.workers:
        raise PlanError(f"{name} is cut for {split.workers} workers, not for {setting.workers}; give as many stages")
    if split.cut.wide or split.stages != split.workers:
        raise PlanError(f"{name} with a wide last layer or several stages a worker cannot be predicted yet")
    if len(profile.layers) < split.stages:
        raise PlanError(f"{len(profile.layers)} layers cannot make {split.stages} stages of {name}; use fewer workers")
