"""The methods of `tightwire search`, each with the same number of evaluations, each going on where it was killed.

``amc`` and ``amc-paper`` (the agent alone, by the paper's settings) keep their agent (`compress.search.keep`). Others
are cheap but for their measurements: those are kept by policy, so that a second start walks the same way and waits for
nothing it has seen.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tightwire.compress.errors import CompressError
from tightwire.compress.search import rivals
from tightwire.compress.search.amc import Search
from tightwire.compress.search.ddpg import PAPER, Settings
from tightwire.compress.search.keep import Keep
from tightwire.compress.search.problem import Problem, Tried
from tightwire.compress.search.settle import settle
from tightwire.files import write_json

Watch: TypeAlias = Callable[[str, int, int, Tried, float], None]
"""Method, evaluations done, in all, the last one, and what part of the budget it uses."""

_AGENTS = {"amc": Settings(), "amc-paper": PAPER}
_RIVALS = {
    "uniform": rivals.uniform, "threshold": rivals.threshold, "curvature": rivals.curvature,
    "sensitivity": rivals.sensitivity, "evolution": rivals.evolution,
}  # fmt: skip
METHODS = (*_AGENTS, *_RIVALS)
_SAVE_EVERY = 50


@dataclass(frozen=True)
class Searched:
    """What one method tried, how often it measured, and how long it took."""

    tried: list[Tried]
    evaluations: int
    seconds: float


@dataclass(frozen=True)
class Kept:
    """The work folder of a search; ``name`` tells its parts apart, ``digest`` the search from others."""

    folder: Path
    name: str
    digest: str

    def agent(self, method: str) -> Keep:
        """Where a method's agent is kept."""
        return Keep(self.folder / f"{self.name}{method}.safetensors", self.digest)

    def load(self, problem: Problem) -> None:
        """Take over what was measured before."""
        path = self._path()
        if not path.exists():
            return
        try:
            words: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            known = {tuple(map(int, key.split(","))): float(error) for key, error in words["known"].items()}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CompressError(f"{path} cannot be read ({error!r}); --overwrite it") from None
        if words.get("digest") != self.digest:
            raise CompressError(f"{path} holds another search; name another --work, or --overwrite")
        problem.known.update(known)

    def save(self, problem: Problem) -> None:
        """Keep what is measured so far."""
        known = {",".join(map(str, key)): error for key, error in problem.known.items()}
        write_json(self._path(), {"digest": self.digest, "known": known})

    def _path(self) -> Path:
        return self.folder / f"{self.name}known.json"


def every_method(prune: str) -> tuple[str, ...]:
    """What is meant by all of them: AMC and its rivals for what is pruned."""
    other = "threshold" if prune == "channels" else "curvature"
    return ("amc", *(name for name in _RIVALS if name != other))


def search_by(method: str, problem: Problem, evaluations: int, *, kept: Kept, seed: int, watch: Watch) -> Searched:
    """Search by one method; what is measured is kept on the way."""
    begin, count = time.perf_counter(), 0

    def told(number: int, tried: Tried) -> None:
        nonlocal count
        count = number
        watch(method, number, evaluations, tried, tried.cost / problem.clip.target)
        if number % _SAVE_EVERY == 0:
            kept.save(problem)

    kept.load(problem)
    if method in _AGENTS:
        agent = Search(problem, settings=_AGENTS[method], seed=seed)
        tried = agent.run(evaluations, told=told, keep=kept.agent(method))
        count = len(tried)
    else:
        tried = _RIVALS[method](problem, evaluations, told=told, seed=seed)
    kept.save(problem)
    return Searched(tried, count, time.perf_counter() - begin)


def winner(problem: Problem, searched: Mapping[str, Searched]) -> tuple[str, Tried]:
    """The policy to take of all that methods take, and the first method that takes it."""
    found = {method: settle(problem, one.tried) for method, one in searched.items()}
    taken = settle(problem, list(found.values()))
    return next(method for method, one in found.items() if one.levels == taken.levels), taken
