"""What a worker pushes leaves its device while it computes, and what it pulls comes back before it is used."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.links.test_staging import LateCopies
from tightwire.algebra.grain import tensor
from tightwire.algebra.recipe import AnyRecipe
from tightwire.codecs.topk import topk
from tightwire.exchanges.server import server
from tightwire.links.loop import LoopLink
from tightwire.links.staging import Staging
from tightwire.memories.residual import residual
from tightwire.recipes import asgd, downpour, easgd
from tightwire.run import serve
from tightwire.run.join import join
from tightwire.run.together import together

RECIPES: dict[str, AnyRecipe] = {
    "gradients": asgd(),
    "two shards": asgd().but(exchange=server(2)),
    "few of them": asgd().but(memory=residual(), codec=topk(0.2)),
    "progress": downpour(),
    "weights": easgd(tau=2),
}


def train(chosen: AnyRecipe, said: list[str]) -> list[Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    for name, weight in model.named_parameters():
        weight.register_hook(lambda grad, name=name: said.append(f"gradient of {name}"))
    with join(chosen.but(grain=tensor()), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
        for step in range(6):
            said.append("step")
            x = torch.randn(5, 3, generator=torch.Generator().manual_seed(10 * step + wire.rank))
            F.mse_loss(model(x), x[:, :2]).backward()
            wire.step()
    return [weight.detach().clone() for weight in model.parameters()]


@pytest.mark.parametrize("name", RECIPES)
def test_a_device_with_late_copies_learns_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = together(2, lambda rank: train(RECIPES[name], []))
    monkeypatch.setattr(LoopLink, "afar", lambda link, name: True)
    monkeypatch.setattr(serve, "abreast", lambda questions, afar: questions)  # this link has one baton
    copies = LateCopies()
    monkeypatch.setattr(serve, "staging_for", lambda device: Staging(copies))
    staged = together(2, lambda rank: train(RECIPES[name], []))
    assert copies.marks and all(one.equal(other) for one, other in zip(plain[0], staged[0], strict=True))
    assert all(one.equal(other) for one, other in zip(plain[1], staged[1], strict=True))


def test_gradients_leave_while_the_backward_pass_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    class Spying(LateCopies):
        def lift(self, tensor: Tensor) -> tuple[Tensor, object]:  # type: ignore[override]
            said.append("lift")
            return super().lift(tensor)

    monkeypatch.setattr(LoopLink, "afar", lambda link, name: True)
    monkeypatch.setattr(serve, "staging_for", lambda device: Staging(Spying()))
    together(1, lambda rank: train(asgd(), said))
    last = said[len(said) - said[::-1].index("step") :]
    gradients = [place for place, text in enumerate(last) if text.startswith("gradient")]
    assert last.count("lift") == len(gradients) == 4
    assert last.index("lift") < gradients[1], last
