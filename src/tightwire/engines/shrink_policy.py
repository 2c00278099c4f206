"""`tightwire shrink --policy`: the plan that a search decided, and the network that it cut."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from torch import nn

from tightwire.compress.pipeline import Sets
from tightwire.compress.plan import Plan
from tightwire.compress.search.apply import cut_by, example_of, planned
from tightwire.compress.search.policy import load_policy
from tightwire.compress.size import dense_nbytes
from tightwire.engines.config import ConfigError
from tightwire.engines.shrink_source import Source


def follow(path: Path, source: Source, plan: Plan, sets: Sets | None) -> tuple[Plan, nn.Module | None, str]:
    """The plan with the policy in it; the network with its channels cut, if that is the policy; and a name for both."""
    policy = load_policy(path)
    if policy.model != source.name:
        raise ConfigError(f"{path} is a policy for {policy.model}, not for {source.name}; search again")
    if policy.digest != source.digest:
        raise ConfigError(f"{path} was found for other weights than these; search again, or shrink the run it names")
    made = planned(plan, policy, dense_nbytes=dense_nbytes(source.model))
    cut = None
    if policy.prune == "channels":
        example = example_of(source.model, source.inputs)
        cut = cut_by(policy, source.model, example, sets.train if sets is not None else None)
    digest = sha256(f"{source.digest}\n{policy.layers}".encode()).hexdigest()
    return made, cut, digest
