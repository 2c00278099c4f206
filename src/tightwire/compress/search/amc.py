"""AMC's search: episodes over the units, each rewarded at its end; then the agent learns from all of them.

    for each episode:   for each unit t:   a ~ uniform (warm-up), or N(μ(s_t), σ²) cut to [0, 1]
                                           choice = clip(a);  s_{t+1} tells what was really chosen
                        every transition (s_t, a_t, R, s_{t+1}) is remembered with the reward R of the whole policy
                        after warm-up: as many updates as units

Beyond the paper, the first episodes are the policies that need no search (`rules`), and some later ones do not follow
the actor but vary the best policy found so far (`moves`): a few units, all along one direction, or all towards home.
DDPG learns from any behaviour, so the critic gains what it otherwise never sees: good policies and their neighbours. He
et al.: AMC. ECCV 2018. Everything that decides what comes next is in `Search.save`: a search that was killed ends with
the same policies, to the bit, as one that was not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tightwire.algebra.threads import threads
from tightwire.compress.search.ddpg import Ddpg, Settings
from tightwire.compress.search.keep import Keep
from tightwire.compress.search.moves import Action, homeward, nudge, tilt
from tightwire.compress.search.noise import truncated_normal
from tightwire.compress.search.problem import Problem, Tried, best
from tightwire.compress.search.rules import home, uniform_levels
from tightwire.compress.search.state import States

Told: TypeAlias = Callable[[int, Tried], None]
Step: TypeAlias = tuple[NDArray[np.float32], NDArray[np.float32]]
_SAVE_EVERY = 25  # episodes
_LEAST_SIGMA = 0.1  # of a change around the best policy
_HOMEWARD = 0.2  # of these episodes go towards uniform
_FEW, _TILTED = 12, 0.5  # with more units, so many of the others move all along one direction, the rest a few


class Search:
    """One AMC search, episode by episode; what it found so far is ``tried``."""

    def __init__(self, problem: Problem, *, settings: Settings | None = None, seed: int = 0) -> None:
        self._problem = problem
        self._settings = settings or Settings()
        self._states = States(problem.units, problem.cost)
        self._actions = len(problem.units[0].axes)
        self._agent = Ddpg(state=self._states.width, action=self._actions, settings=self._settings, seed=seed)
        self._random = np.random.default_rng(seed)
        self.tried: list[Tried] = []

    def run(self, episodes: int, *, told: Told = lambda episode, tried: None, keep: Keep | None = None) -> list[Tried]:
        """Episodes up to so many in all; the ones before are taken from ``keep``."""
        if keep is not None and not self.tried:
            self._load(keep)
        while len(self.tried) < episodes:
            self.tried.append(self.episode())
            told(len(self.tried), self.tried[-1])
            if keep is not None and (len(self.tried) % _SAVE_EVERY == 0 or len(self.tried) == episodes):
                self.save(keep)
        return self.tried[:episodes]

    def episode(self) -> Tried:
        """Walk over all units once, measure, remember, learn."""
        clip, number = self._problem.clip, len(self.tried)
        chosen_1T = clip.begin(1)
        steps: list[Step] = []
        given = self._given(number)
        for t, unit in enumerate(self._problem.units):
            state = self._states.at(t, chosen_1T)
            action = self._action(state, number) if given is None else given[t]
            clip.decide_(chosen_1T, t, np.array([unit.asked([float(a) for a in action])]))
            steps.append((state, action))
        (tried,) = self._problem.evaluate(chosen_1T)
        self._remember(steps, tried.reward)
        if number >= self._settings.warmup:
            with threads(1):  # its matrices are small: on busy cores two threads take half as long again
                for _ in range(self._settings.updates * len(steps)):
                    self._agent.update(self._random)
        return tried

    def _given(self, episode: int) -> list[Action] | None:
        """Actions that are not the actor's: first of policies that need no search, later of the best one, varied."""
        if episode <= len(self._problem.ruled) and self._settings.elite > 0:
            known = [uniform_levels(self._problem).tolist(), *self._problem.ruled]
            return self._actions_of(known[episode])
        if episode < self._settings.warmup or self._random.random() >= self._settings.elite:
            return None
        actions = self._actions_of(best(self.tried).levels)
        sigma = max(_LEAST_SIGMA, self._sigma(episode))
        if self._problem.samples and self._random.random() < _HOMEWARD:  # exact errors owe nothing to chance
            return homeward(self._problem, actions, self._actions_of(home(self._problem)), self._random.random())
        if len(actions) > _FEW and self._random.random() < _TILTED:
            return tilt(self._problem, actions, self._states.fixed_TF, sigma, self._random)
        return nudge(actions, sigma, self._random)

    def _actions_of(self, levels: Iterable[int]) -> list[Action]:
        """The actions that mean these choices."""
        return [np.array(unit.action(int(c)), np.float32) for unit, c in zip(self._problem.units, levels, strict=True)]

    def _sigma(self, episode: int) -> float:
        return self._settings.sigma * self._settings.decay ** (episode - self._settings.warmup)

    def _action(self, state: NDArray[np.float32], episode: int) -> NDArray[np.float32]:
        if episode < self._settings.warmup:
            return self._random.random(self._actions, np.float32)
        return truncated_normal(self._agent.act(state), self._sigma(episode), self._random)

    def _remember(self, steps: list[Step], reward: float) -> None:
        for t, (state, action) in enumerate(steps):
            more = t + 1 < len(steps)
            after = steps[t + 1][0] if more else state
            self._agent.replay.add(state, action, reward, after, more=more)

    def save(self, keep: Keep) -> None:
        """Put everything into a checkpoint."""
        agent = self._agent
        tensors: dict[str, Tensor] = {"replay": torch.from_numpy(agent.replay.table_RW)}
        for name, net in (("actor", agent.actor), ("critic", agent.critic)):
            tensors |= {f"{name}/{key}": tensor for key, tensor in net.tensors().items()}
        words = {
            "settings": asdict(self._settings), "baseline": agent.baseline, "held": agent.replay.held,
            "place": agent.replay.place, "random": self._random.bit_generator.state,
            "tried": [asdict(one) for one in self.tried],
        }  # fmt: skip
        keep.save(tensors, json.dumps(words))

    def _load(self, keep: Keep) -> None:
        found = keep.load()
        if found is None:
            return
        tensors, text = found
        words: dict[str, Any] = json.loads(text)
        keep.check(words["settings"] == asdict(self._settings), "other settings")
        agent = self._agent
        agent.replay.load(tensors["replay"].numpy(), held=words["held"], place=words["place"])
        for name, net in (("actor", agent.actor), ("critic", agent.critic)):
            mine = {key.partition("/")[2]: t for key, t in tensors.items() if key.startswith(f"{name}/")}
            net.load(mine)
        agent.baseline = words["baseline"]
        self._random.bit_generator.state = words["random"]
        self.tried = [Tried(**one | {"levels": tuple(one["levels"])}) for one in words["tried"]]
