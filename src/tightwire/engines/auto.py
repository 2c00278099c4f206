"""`--recipe auto`: time the network here, plan for the workers and the wire of this run, take what is advised.

Only methods that take the steps of synchronous SGD are candidates: a choice nobody looked at must not cost accuracy.
Servers are not: an all-reduce over the same wire is never slower.
"""

from __future__ import annotations

import os
from typing import Any

from tightwire.engines.config import ConfigError, RunConfig
from tightwire.engines.planning import PlanConfig, Told, make_plan
from tightwire.engines.recipe import needs_server
from tightwire.plan.advice import advice
from tightwire.plan.candidates import candidates
from tightwire.plan.cluster import Cluster, flat, parse_link
from tightwire.plan.kinds import keeps


def choose(config: RunConfig, *, told: Told = lambda text: None) -> RunConfig:
    """The same run with the advised recipe, and why (``plan``, which goes into the result)."""
    if config.codec is not None:
        raise ConfigError(f"recipe=auto and codec={config.codec}: auto chooses the codec as well; leave out --codec")
    tried = [one for one in candidates(config.workers) if one.able]
    able = [one.name for one in tried if keeps(one.kind) and not needs_server(one.recipe)]
    asked = PlanConfig(
        model=config.model, workers=(config.workers,), data=config.data, data_folder=config.data_folder,
        batch=config.batch, device=config.device, recipes=tuple(dict.fromkeys(able)),
    )  # fmt: skip
    plan = make_plan(asked, told=told, cluster=cluster_of(config))
    row = plan.chosen.advised
    why: dict[str, Any] = {
        "chosen": str(row.candidate),
        "why": advice(plan),
        "step_s": row.prediction.step_s,
        "tx_nbytes": row.prediction.tx_nbytes,
        "bottleneck": row.prediction.bottleneck,
        "ranking": [{"recipe": str(r.candidate), "step_s": r.prediction.step_s} for r in plan.chosen.rows],
    }
    return config.but(recipe=row.candidate.name, params=dict(row.candidate.params), plan=why)


def cluster_of(config: RunConfig) -> Cluster:
    """The workers of a run on this machine: they share its cores, and the wire that the run is given."""
    rate = config.lab or config.link
    sharing = config.workers if config.device == "cpu" else 1
    cores = os.cpu_count() if config.device == "cpu" else None
    return flat(parse_link(rate or "inf"), cores=cores, sharing=sharing, name=rate or "loopback")
