"""Who is joined to whom, and how fast: links in tiers, as stated or read from a file.

    tier 0   device      4 workers of a host, over PCIe
    tier 1   host        hosts of a rack, over 10 Gbit/s          two ranks talk over the innermost tier that holds both
    tier 2   rack        everybody, over 1 Gbit/s

A group of one tier has one port to the next, which its workers share: four devices behind one network card have a
quarter of it each. A transfer of n bytes takes α + n/B, and a port carries one byte at a time in each direction.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from math import inf, isfinite
from pathlib import Path
from typing import Any, Literal

from tightwire.files import write_json
from tightwire.lab.rate import parse_rate
from tightwire.lab.shaping import ETHERNET_NBYTES, HEADER_NBYTES
from tightwire.plan.errors import PlanError

MTU = 1500
PAYLOAD_SHARE = (MTU + ETHERNET_NBYTES - HEADER_NBYTES) / (MTU + ETHERNET_NBYTES)
"""Of the bits of a link, those that carry payload: the rest is headers of Ethernet, IP and TCP."""


@dataclass(frozen=True)
class Link:
    """One port: what a message takes to arrive beyond its bytes, and payload bytes a second in each direction.

    >>> Link(1e-3, 1e6).seconds(2000)
    0.003
    """

    latency_s: float
    bytes_per_s: float

    def __post_init__(self) -> None:
        if not (self.bytes_per_s > 0):
            raise PlanError(f"a link of {self.bytes_per_s:g} bytes/s carries nothing; give a bandwidth above 0")
        if self.latency_s < 0 or not isfinite(self.latency_s):
            raise PlanError(f"a latency of {self.latency_s:g} s: give 0 or a positive number of seconds")

    def seconds(self, nbytes: float) -> float:
        """What one message takes when nobody else sends."""
        return self.latency_s + nbytes / self.bytes_per_s


PERFECT = Link(0.0, inf)


@dataclass(frozen=True)
class Tier:
    """Groups of ``size`` consecutive workers that talk over ``link``; size 0 is everybody."""

    name: str
    size: int
    link: Link


@dataclass(frozen=True)
class Cluster:
    """Workers and what joins them, innermost tier first.

    ``sharing`` workers live on ``cores`` cores of one machine (None: each has a device of its own). ``speed`` is that
    of each rank relative to the profiled device, repeated if there are more ranks; empty means all alike.
    ``native`` says whether the link has collectives of its own, ``servers`` whether the shards of a parameter server
    live with the workers or on hosts apart, a shard each.
    """

    tiers: tuple[Tier, ...]
    cores: int | None = None
    sharing: int = 1
    speed: tuple[float, ...] = ()
    memory_bytes: int | None = None
    price_per_hour: float | None = None
    native: bool = True
    servers: Literal["inside", "apart"] = "inside"
    name: str = ""

    def __post_init__(self) -> None:
        sizes = [tier.size for tier in self.tiers]
        if not sizes or sizes[-1] != 0 or any(size < 1 for size in sizes[:-1]):
            raise PlanError(f"tiers of {sizes} workers: sizes grow, and the last tier holds everybody (size 0)")
        if any(outer % inner for inner, outer in pairwise(sizes[:-1])):
            raise PlanError(f"tiers of {sizes} workers: each size is a multiple of the one before")
        if self.cores is not None and self.cores < 1:
            raise PlanError(f"cores={self.cores}: a machine has at least one; leave it out for a device each")
        if self.servers not in ("inside", "apart"):
            raise PlanError(f"servers={self.servers}: they live inside, with the workers, or apart")
        if self.sharing < 1 or any(not speed > 0 for speed in self.speed):
            raise PlanError(f"sharing={self.sharing}, speed={self.speed}: both are above 0")

    def tier_of(self, a: int, b: int) -> int:
        """The innermost tier that holds both ranks."""
        return next(i for i, tier in enumerate(self.tiers) if tier.size == 0 or a // tier.size == b // tier.size)

    def link(self, a: int, b: int) -> Link:
        """What joins two ranks."""
        return self.tiers[self.tier_of(a, b)].link

    def port(self, rank: int, tier: int) -> tuple[int, int]:
        """The port by which a rank reaches others of a tier: the tier, and the group behind the port."""
        return tier, rank if tier == 0 else rank // self.tiers[tier - 1].size

    def hosts(self, workers: int) -> tuple[int, ...]:
        """The machine of each rank: the innermost groups, or one each where there is one tier."""
        size = self.tiers[0].size if len(self.tiers) > 1 else 1
        return tuple(rank // size for rank in range(workers))

    def speed_of(self, rank: int) -> float:
        """How fast a rank computes, relative to the profile."""
        return self.speed[rank % len(self.speed)] if self.speed else 1.0

    @property
    def outermost(self) -> Link:
        """The link between the largest groups."""
        return self.tiers[-1].link

    def with_link(self, link: Link) -> Cluster:
        """The same cluster over another outermost link."""
        return replace(self, tiers=(*self.tiers[:-1], replace(self.tiers[-1], link=link)))

    def scaled(self, bytes_per_s: float) -> Cluster:
        """The same cluster with another outermost bandwidth."""
        return self.with_link(replace(self.outermost, bytes_per_s=bytes_per_s))

    def save(self, path: Path) -> None:
        """Write it as JSON, as `load_cluster` reads it."""
        data = asdict(self)
        data["tiers"] = [
            {"name": t.name, "size": t.size, "latency_s": t.link.latency_s, "bytes_per_s": t.link.bytes_per_s}
            for t in self.tiers
        ]
        write_json(path, data, indent=1)


def flat(link: Link, *, cores: int | None = None, sharing: int = 1, name: str = "") -> Cluster:
    """Every worker behind a port of its own, all joined by one switch."""
    return Cluster((Tier("host", 0, link),), cores=cores, sharing=sharing, name=name)


def parse_link(text: str) -> Link:
    """A rate as people write it, ``1gbit`` or ``1gbit,0.2ms``, in payload; ``inf`` takes no time.

    >>> parse_link("1gbit,0.2ms").latency_s, round(parse_link("1gbit").bytes_per_s / 1e6, 1)
    (0.0002, 119.6)
    """
    if text.strip().lower() == "inf":
        return PERFECT
    rate = parse_rate(text)
    return Link(rate.latency_s, rate.bits_per_second / 8 * PAYLOAD_SHARE)


def load_cluster(path: Path) -> Cluster:
    """A cluster from JSON or TOML: ``tiers``, each with ``name``, ``size`` and ``link`` ("10gbit,50us"); the rest as in
    `Cluster`.
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        return _cluster(data)
    except OSError as error:
        raise PlanError(f"the cluster file {path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, PlanError):
            raise
        raise PlanError(f"{path} is not a cluster: {error}; write tiers with name, size and link") from None


def _cluster(data: dict[str, Any]) -> Cluster:
    known = {f.name for f in fields(Cluster)}
    if unknown := set(data) - known:
        raise PlanError(f"a cluster has no {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}")
    tiers = tuple(_tier(entry) for entry in data["tiers"])
    return Cluster(**{**data, "tiers": tiers, "speed": tuple(data.get("speed", ()))})


def _tier(entry: dict[str, Any]) -> Tier:
    link = (
        parse_link(entry["link"])
        if "link" in entry
        else Link(float(entry["latency_s"]), float(entry["bytes_per_s"]))
    )  # fmt: skip
    return Tier(str(entry["name"]), int(entry["size"]), link)
