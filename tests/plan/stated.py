"""A small network whose times are stated, for plans that measure nothing."""

from collections.abc import Iterable

from tightwire.plan.candidates import candidates
from tightwire.plan.cluster import Cluster, flat, parse_link
from tightwire.plan.profile import Profile
from tightwire.plan.published.paper import stated_profile

SHAPES = {"in.weight": (512, 512), "in.bias": (512,), "mid.weight": (512, 512), "out.weight": (64, 512)}


def profile(workers: int = 4, *, seconds: float = 0.05, names: Iterable[str] = ()) -> Profile:
    """Half a million parameters, every codec of the catalogue, coding for nothing."""
    wanted = [one.recipe for one in candidates(workers, names=names)]
    return stated_profile(SHAPES, *wanted, seconds=seconds, batch=8, model="stated")


def link(rate: str) -> Cluster:
    """Hosts on a switch."""
    return flat(parse_link(rate), name=rate)
