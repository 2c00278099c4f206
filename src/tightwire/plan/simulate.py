"""Every event of a recipe on a cluster: a discrete-event simulation that runs the recipe's own parts.

The buckets are the runtime's (`plan.layout`), the transfers the exchange's (`plan.jobs`), and who waits for whom is
decided by the recipe's own `Schedule`, unchanged (`plan.desk`). What is simulated is time: computing (with stragglers),
ports (with other traffic), shared cores, and failures.
"""

from __future__ import annotations

from collections.abc import Sequence

from tightwire.algebra.recipe import AnyRecipe
from tightwire.plan.asking import Shards
from tightwire.plan.cluster import Cluster
from tightwire.plan.engine import Engine
from tightwire.plan.errors import PlanError
from tightwire.plan.jobs import Setting
from tightwire.plan.layout import Way, lay_out
from tightwire.plan.network import Network, Traffic
from tightwire.plan.pipelined import Stage
from tightwire.plan.players import Player
from tightwire.plan.profile import Profile
from tightwire.plan.stagehand import Delays, Failure, Stagehand
from tightwire.plan.trace import Asks, Trace

__all__ = ["Failure", "Traffic", "simulate"]


def simulate(  # noqa: PLR0913 -- what may go wrong is a list
    recipe: AnyRecipe,
    profile: Profile,
    cluster: Cluster,
    workers: int,
    *,
    steps: int = 50,
    delays: Delays | None = None,
    failures: Sequence[Failure] = (),
    traffic: Traffic | None = None,
    phase: int = 10**6,
    most_spans: int = 20_000,
) -> Trace:
    """Play ``steps`` steps for each worker, in all; those who are faster take more of them.

    ``delays(rank, step)`` is a factor on the computation of a step (`plan.delays`, or `engines.delays.Delays.factor`).
    """
    ways = lay_out(recipe, profile, cluster, workers, step=phase)
    setting = Setting(profile, cluster, workers, phase)
    return play(
        recipe.name, ways, setting, steps=steps, delays=delays, failures=failures, traffic=traffic,
        most_spans=most_spans,
    )  # fmt: skip


def play(  # noqa: PLR0913
    name: str,
    ways: Sequence[Way],
    setting: Setting,
    *,
    steps: int,
    delays: Delays | None = None,
    failures: Sequence[Failure] = (),
    traffic: Traffic | None = None,
    most_spans: int = 20_000,
    evenly: int = 0,
    seed: int = 0,
) -> Trace:
    """`simulate`, of lanes that are laid out already.

    With ``evenly`` every worker takes ``steps`` of its own and leaves, and so many steps of the recipe count as one.
    ``seed`` draws how ports are shared, where that is not even.
    """
    if steps < 1:
        raise PlanError(f"steps={steps}: a simulation takes at least one")
    profile, cluster, workers = setting.profile, setting.cluster, setting.workers
    engine = Engine(profile.slowed if cluster.cores is not None else None)
    network = Network(engine, cluster, uneven=profile.overheads.uneven, seed=seed)
    stage = Stagehand(setting, engine, network, delays, failures, workers * steps, most_spans)
    if evenly:
        stage.quota, stage.stride = steps, evenly
    if traffic is not None:
        network.disturb(traffic, workers)
    shards = _cast(ways, stage)
    engine.run()
    if not engine.over:
        took = f"{len(stage.step_s)} of {stage.last} worker-steps"
        raise PlanError(f"{name}: after {took} nobody can go on; a worker that all wait for has left")
    for shard in shards:
        for desk in shard.desks:
            stage.staleness.update(desk.staleness)
            stage.dropped += desk.dropped
    return _trace(name, stage, shards)


def _cast(ways: Sequence[Way], stage: Stagehand) -> list[Shards]:
    """Start every process of the play."""
    workers = stage.setting.workers
    if ways[0].recipe.split.stages > 1:
        for rank in range(workers):
            stage.engine.start(Stage(rank, ways[0], stage).main())
        return []
    shards = [Shards(way, stage) for way in ways if way.pattern == "server" and workers > 1]
    for rank in range(workers):
        player = Player(rank, ways, stage, shards)
        stage.engine.start(player.main())
        if any(way.collective or way.leaf.inner is not None for way in ways) and workers > 1:
            stage.engine.start(player.comm())
    return shards


def _trace(name: str, stage: Stagehand, shards: Sequence[Shards]) -> Trace:
    seconds = stage.engine.now
    whole = seconds * stage.setting.workers
    all_done = stage.quota * stage.setting.workers == len(stage.step_s)
    return Trace(
        recipe=name,
        workers=stage.setting.workers,
        seconds=seconds,
        step_s=tuple(stage.step_s),
        ends_s=tuple(stage.ends_s),
        utilisation=stage.computing_s / whole if whole > 0 else 1.0,
        staleness=dict(stage.staleness),
        dropped=stage.dropped,
        tx_nbytes=tuple(stage.tx if all_done else (tx for tx, _ in stage.by_steps)),
        rx_nbytes=tuple(stage.rx if all_done else (rx for _, rx in stage.by_steps)),
        port_nbytes=stage.network.by_port(),
        spans=tuple(stage.spans),
        moments=tuple(stage.moments),
        asks=tuple(Asks(len(s.desks) * s.up_nbytes, len(s.desks) * s.down_nbytes) for s in shards),
        usual_s=tuple(sum(times) / max(1, len(times)) for times in stage.usual_s),
    )
