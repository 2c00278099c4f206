"""Deep deterministic policy gradient, as AMC has it: small, on the CPU, all of it in a few flat tensors.

    actor    μ(s) = sigmoid(fc(relu(fc(relu(fc(s))))))                 11 → 300 → 300 → A
    critic   Q(s, a) = fc(relu(fc(relu(fc(s) + fc(a)))))               300, 300, 1
    y = r − b + γ·Q'(s', μ'(s')) where more follows,    b ← b + ½(mean r − b)
    critic: min (Q(s, a) − y)²        actor: max Q(s, μ(s))        targets ← (1 − τ)·targets + τ·nets

Lillicrap et al.: Continuous control with deep reinforcement learning. ICLR 2016, arXiv 1509.02971. `PAPER` has the
rates of AMC's released code; the defaults learn faster and explore longer. Nothing is drawn but from seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from tightwire.compress.search.replay import Replay


@dataclass(frozen=True)
class Settings:
    """How the agent learns and explores."""

    hidden: int = 300
    actor_lr: float = 1e-3
    critic_lr: float = 1e-3
    tau: float = 0.01
    gamma: float = 1.0
    batch: int = 64
    memory: int = 2000
    baseline: float = 0.5
    warmup: int = 60  # episodes of uniform actions
    sigma: float = 0.5
    decay: float = 0.98  # of sigma, an episode after warm-up
    updates: int = 1  # for each transition of an episode
    elite: float = 0.5  # of the episodes after warm-up vary the best policy so far; 0 is the paper's agent


PAPER = Settings(actor_lr=1e-4, warmup=100, decay=0.95, elite=0.0)  # as in AMC's released code


class _Net:
    """Some matrices and biases in one flat parameter, so that a step and a soft update are one operation each."""

    def __init__(self, shapes: list[tuple[int, ...]], lr: float, random: torch.Generator) -> None:
        parts, bound = [], 1.0
        for shape in shapes:  # each bias comes after its matrix, and begins within the same bound
            bound = shape[-1] ** -0.5 if len(shape) > 1 else bound
            parts.append((2 * torch.rand(shape, generator=random) - 1).flatten() * bound)
        self._shapes = shapes
        self._sizes = [prod(shape) for shape in shapes]
        self.flat = nn.Parameter(torch.cat(parts))
        self.target = self.flat.detach().clone()
        self.optimizer = torch.optim.Adam([self.flat], lr, fused=True)

    def parts(self, flat: Tensor) -> list[Tensor]:
        return [part.view(shape) for part, shape in zip(flat.split(self._sizes), self._shapes, strict=True)]

    def step(self, loss: Tensor) -> None:
        (self.flat.grad,) = torch.autograd.grad(loss, [self.flat])
        self.optimizer.step()

    def follow(self, tau: float) -> None:
        self.target.lerp_(self.flat.detach(), tau)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a checkpoint needs, by name."""
        state = self.optimizer.state.get(self.flat, {})
        return {"flat": self.flat.detach(), "target": self.target, **{key: state[key] for key in state}}

    def load(self, tensors: dict[str, Tensor]) -> None:
        with torch.no_grad():
            self.flat.copy_(tensors["flat"])
        self.target = tensors["target"].clone()
        moments = {key: tensor.clone() for key, tensor in tensors.items() if key not in ("flat", "target")}
        if moments:
            self.optimizer.state[self.flat] = moments


class Ddpg:
    """The agent. ``random`` draws what it replays; its nets begin by ``seed``."""

    def __init__(self, *, state: int, action: int, settings: Settings, seed: int) -> None:
        h = settings.hidden
        random = torch.Generator().manual_seed(seed)
        self.settings = settings
        self.actor = _Net([(h, state), (h,), (h, h), (h,), (action, h), (action,)], settings.actor_lr, random)
        self.critic = _Net(
            [(h, state), (h,), (h, action), (h,), (h, h), (h,), (1, h), (1,)], settings.critic_lr, random
        )
        self.replay = Replay(settings.memory, state=state, action=action)
        self.baseline: float | None = None

    @torch.no_grad()
    def act(self, state_S: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the actor does in a state, without noise."""
        mean_1A = self._mu(self.actor.flat, torch.from_numpy(state_S)[None])
        return np.asarray(mean_1A[0].numpy(), np.float32)

    def update(self, random: np.random.Generator) -> None:
        """One step of critic, actor and targets on a batch that is replayed."""
        chosen = self.settings
        state, action, reward, after, more = self.replay.draw(chosen.batch, random)
        mean = float(reward.mean())
        self.baseline = mean if self.baseline is None else self.baseline + chosen.baseline * (mean - self.baseline)
        with torch.no_grad():
            ahead = self._q(self.critic.target, after, self._mu(self.actor.target, after))
            y = reward - self.baseline + chosen.gamma * more * ahead
        self.critic.step(F.mse_loss(self._q(self.critic.flat, state, action), y))
        self.actor.step(-self._q(self.critic.flat.detach(), state, self._mu(self.actor.flat, state)).mean())
        self.critic.follow(chosen.tau)
        self.actor.follow(chosen.tau)

    def _mu(self, flat: Tensor, state: Tensor) -> Tensor:
        w1, b1, w2, b2, w3, b3 = self.actor.parts(flat)
        return F.linear(F.linear(F.linear(state, w1, b1).relu(), w2, b2).relu(), w3, b3).sigmoid()

    def _q(self, flat: Tensor, state: Tensor, action: Tensor) -> Tensor:
        ws, bs, wa, ba, w2, b2, w3, b3 = self.critic.parts(flat)
        joined = (F.linear(state, ws, bs) + F.linear(action, wa, ba)).relu()
        return F.linear(F.linear(joined, w2, b2).relu(), w3, b3)
