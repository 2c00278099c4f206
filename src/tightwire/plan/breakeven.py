"""From which bandwidth on which recipe: where the advice of a ranking changes.

The bandwidth between hosts runs over a logarithmic grid; where the winner of two neighbouring points differs, the
crossing is found by bisection. Only methods that take the steps of synchronous SGD compete, by the rule of `search`:
of a tie the plainest. Servers do not: one port for all never beats an all-reduce over the same links. A recipe that is
advised over less than a factor of two in bandwidth is left out, for it differs little from its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, log10, sqrt

from tightwire.algebra.recipe import leaves
from tightwire.plan.candidates import Candidate
from tightwire.plan.cluster import PAYLOAD_SHARE, Cluster, parse_link
from tightwire.plan.kinds import keeps
from tightwire.plan.profile import Profile
from tightwire.plan.search import Ranking, Row, evaluate, gentlest, plainest_best

LOW, HIGH = (parse_link(rate).bytes_per_s for rate in ("1mbit", "100gbit"))
PER_DECADE = 3
_RANKED = 3  # curves of the best at the planned bandwidth, besides those that are advised somewhere
_LASTS = 2.0
_EXACT = 1.02  # a crossing is known to within this factor


@dataclass(frozen=True)
class Reign:
    """A recipe that is advised from one bandwidth to another, in bytes a second."""

    candidate: Candidate
    low: float
    high: float


@dataclass(frozen=True)
class Sweep:
    """Values of some recipes over bandwidth: the curves of a picture."""

    bandwidths: tuple[float, ...]
    curves: tuple[tuple[Candidate, tuple[float, ...]], ...]
    reigns: tuple[Reign, ...]


def sweep(profile: Profile, cluster: Cluster, ranking: Ranking, *, low: float = LOW, high: float = HIGH) -> Sweep:
    """How the methods that take the same steps compare at every bandwidth."""
    race = _Race(profile, cluster, ranking)
    grid = [low * (high / low) ** (at / _points(low, high)) for at in range(_points(low, high) + 1)]
    winners = [race.winner(bandwidth) for bandwidth in grid]
    edges, reigns = [0.0], []
    held = winners[0]
    for (left, right), winner in zip(pairwise(grid), winners[1:], strict=True):
        for crossing, heir in race.crossings(left, held, right, winner):
            edges.append(crossing)
            reigns.append(Reign(held, edges[-2], crossing))
            held = heir
    reigns.append(Reign(held, edges[-1], inf))
    lasting = _lasting(reigns)
    ranked = [row.candidate for row in ranking.rows if _competes(row.candidate)][:_RANKED]
    shown = {one.name: one for one in (*ranked, race.plain, *(reign.candidate for reign in lasting))}.values()
    curves = tuple((one, tuple(race.row(one, bandwidth).value for bandwidth in grid)) for one in shown)
    return Sweep(tuple(grid), curves, lasting)


def say(reigns: Sequence[Reign]) -> str:
    """The break-even bandwidths in a sentence.

    >>> edge = parse_link("2.3gbit").bytes_per_s
    >>> say([Reign(Candidate("dgc"), 0.0, edge), Reign(Candidate("sync-sgd"), edge, inf)])
    'below 2.3 Gbit/s use dgc; above it sync-sgd'
    >>> say([Reign(Candidate("sync-sgd"), 0.0, inf)])
    'at every bandwidth use sync-sgd'
    """
    if len(reigns) == 1:
        return f"at every bandwidth use {reigns[0].candidate}"
    first, *middle, last = reigns
    parts = [f"below {show_rate(first.high)} use {first.candidate}"]
    parts += [f"up to {show_rate(reign.high)} {reign.candidate}" for reign in middle]
    return "; ".join([*parts, f"above {'it' if not middle else 'that'} {last.candidate}"])


def line_rate(bytes_per_s: float) -> float:
    """Bits a second of the link that carries so many bytes of payload: what people call its rate."""
    return 8 * bytes_per_s / PAYLOAD_SHARE


def show_rate(bytes_per_s: float) -> str:
    """The rate of a link that carries so many bytes of payload a second, in two digits.

    >>> show_rate(parse_link("2.3gbit").bytes_per_s), show_rate(parse_link("100mbit").bytes_per_s), show_rate(inf)
    ('2.3 Gbit/s', '100 Mbit/s', 'no limit')
    """
    if bytes_per_s == inf:
        return "no limit"
    bits = line_rate(bytes_per_s)
    unit, scale = next(((u, s) for u, s in (("Gbit/s", 1e9), ("Mbit/s", 1e6)) if bits >= 0.995 * s), ("kbit/s", 1e3))
    digits = f"{bits / scale:.2g}" if bits / scale < 99.5 else f"{float(f'{bits / scale:.2g}'):.0f}"
    return f"{digits} {unit}"


class _Race:
    """The recipes that compete, at any bandwidth."""

    def __init__(self, profile: Profile, cluster: Cluster, ranking: Ranking) -> None:
        self._profile, self._cluster, self._ranking = profile, cluster, ranking
        able = [one for one in ranking.tried if _competes(one)] or [ranking.first.candidate]
        names = dict.fromkeys(one.name for one in able)
        self._settings = [[one for one in able if one.name == name] for name in names]
        plain = ranking.row("sync-sgd")
        self.plain = able[0] if plain is None else plain.candidate

    def row(self, candidate: Candidate, bandwidth: float) -> Row:
        return evaluate(
            candidate, self._profile, self._cluster.scaled(bandwidth), self._ranking.workers, aim=self._ranking.aim
        )

    def winner(self, bandwidth: float) -> Candidate:
        rows = [gentlest([self.row(one, bandwidth) for one in settings]) for settings in self._settings]
        return plainest_best(rows).candidate

    def crossings(self, left: float, held: Candidate, right: float, heir: Candidate) -> list[tuple[float, Candidate]]:
        """Where between two bandwidths one winner gives way to another, and whether there is a third between."""
        if held.name == heir.name:
            return []
        if right / left < _EXACT:
            return [(sqrt(left * right), heir)]
        middle = sqrt(left * right)
        between = self.winner(middle)
        below = self.crossings(left, held, middle, between)
        return below + self.crossings(middle, below[-1][1] if below else held, right, heir)


def _competes(candidate: Candidate) -> bool:
    served = any(leaf.recipe.exchange.pattern == "server" for leaf in leaves(candidate.recipe))
    return keeps(candidate.kind) and not served


def _lasting(reigns: Sequence[Reign]) -> tuple[Reign, ...]:
    """Without those that hold for less than a factor of two; what they held goes to whom it was taken from."""
    kept: list[Reign] = []
    for reign in reigns:
        short = kept and reign.high < _LASTS * reign.low
        if kept and (short or kept[-1].candidate.name == reign.candidate.name):
            kept[-1] = replace(kept[-1], high=reign.high)
        else:
            kept.append(reign)
    return tuple(kept)


def _points(low: float, high: float) -> int:
    return max(1, round(PER_DECADE * log10(high / low)))
