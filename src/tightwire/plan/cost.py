"""What a recipe will cost on a cluster: one function, whatever the recipe is.

plan.collective   workers exchange among themselves          (closed form)
plan.served       they ask a parameter server                (a short simulation without stragglers, and its bounds)
plan.staged       the model itself is cut                    (the split's own timetable)
"""

from __future__ import annotations

from collections.abc import Sequence

from tightwire.algebra.exchange import OneMemory
from tightwire.algebra.recipe import AnyRecipe
from tightwire.plan.cluster import Cluster
from tightwire.plan.collective import predict_together
from tightwire.plan.errors import PlanError
from tightwire.plan.jobs import Setting
from tightwire.plan.layout import Way, lay_out
from tightwire.plan.prediction import Bottleneck, Parts, Prediction
from tightwire.plan.profile import Profile
from tightwire.plan.served import predict_served
from tightwire.plan.staged import predict_staged

__all__ = ["Bottleneck", "Parts", "Prediction", "predict"]


def predict(recipe: AnyRecipe, profile: Profile, cluster: Cluster, workers: int, *, step: int = 10**6) -> Prediction:
    """The mean step of a recipe, in the phase that holds at ``step``. One worker alone has nobody to exchange with."""
    ways = lay_out(recipe, profile, cluster, workers, step=step)
    setting = Setting(profile, cluster, workers, step)
    refuse_what_does_not_fit(profile, cluster)
    refuse_one_memory(ways, cluster, workers)
    if ways[0].recipe.split.stages > 1:
        return predict_staged(recipe.name, ways[0], setting)
    if workers > 1 and any(way.pattern == "server" for way in ways):
        return predict_served(recipe.name, ways, setting)
    return predict_together(recipe.name, ways, setting)


def refuse_what_does_not_fit(profile: Profile, cluster: Cluster) -> None:
    """A layer larger than a device's memory, with its gradient."""
    if cluster.memory_bytes is None:
        return
    for layer in profile.layers:
        need = 8 * layer.nparams + layer.activation_nbytes
        if need > cluster.memory_bytes:
            raise PlanError(
                f"layer {layer.name} needs {need / 1e9:.3g} GB for weights, gradient and activations, and a device has "
                f"{cluster.memory_bytes / 1e9:.3g} GB; take a smaller batch or a larger device"
            )


def refuse_one_memory(ways: Sequence[Way], cluster: Cluster, workers: int) -> None:
    """Weights or a centre in one memory need one machine."""
    for way in ways:
        one = isinstance(way.recipe.exchange, OneMemory) or way.pattern == "memory"
        if one and len(set(cluster.hosts(workers))) > 1:
            raise PlanError(f"{way.recipe.name} needs one memory: all {workers} workers on one host")
