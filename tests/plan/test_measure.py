"""A profile of a real network: its layers, when gradients come, what codecs cost; and nothing of it changed."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tightwire.plan.codings import measure_coding, with_codings
from tightwire.plan.errors import PlanError
from tightwire.plan.measure import profile_model
from tightwire.recipes.catalogue import by_name


class Own(nn.Module):
    """A model of a user's own: embeddings, attention, batch norm, a layer that is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.mix = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = nn.BatchNorm1d(16)
        self.out = nn.Linear(16, 5)
        self.unused = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.words(x)
        h = h + self.mix(h, h, h, need_weights=False)[0]
        return self.out(self.norm(h.mean(1)))


def test_layers_and_gradients_in_their_order() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.Linear(512, 10))
    x, y = torch.randn(64, 256), torch.randint(10, (64,))
    profile = profile_model(model, (x, y), F.cross_entropy, name="mlp", repeats=3)
    assert [layer.nparams for layer in profile.layers] == [131_584, 0, 262_656, 5_130]
    assert [layer.activation_nbytes for layer in profile.layers] == [4 * 64 * n for n in (512, 512, 512, 10)]
    ready = [tensor.ready_s for tensor in profile.tensors if tensor.name.endswith("weight")]
    assert ready == sorted(ready, reverse=True) and ready[-1] > 0 and ready[0] <= profile.backward_s
    assert sum(layer.forward_s for layer in profile.layers) <= profile.forward_s * (1 + 1e-9)
    assert sum(layer.backward_s for layer in profile.layers) <= profile.backward_s * (1 + 1e-9)
    assert profile.sequential and profile.batch == 64 and profile.compute_of(256) > profile.compute_s
    assert profile.nparams == sum(p.numel() for p in model.parameters())


def test_a_model_of_ones_own_is_left_as_it_was() -> None:
    model = Own()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    x, y = torch.randint(50, (8, 6)), torch.randint(5, (8,))
    profile = profile_model(model, (x, y), F.cross_entropy, optimizer, repeats=2)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not optimizer.state and all(p.grad is None for p in model.parameters())
    assert not profile.sequential
    assert {"words", "norm", "out"} <= {layer.name for layer in profile.layers}
    unused = next(t for t in profile.tensors if t.name == "unused.weight")
    assert unused.ready_s == profile.backward_s


def test_what_learns_nothing_is_refused() -> None:
    with pytest.raises(PlanError, match="nothing to exchange"):
        profile_model(nn.ReLU(), (torch.ones(1, 1), None), lambda out, _: out.sum())


def test_codecs_are_measured_on_the_models_own_tensors() -> None:
    model = nn.Sequential(nn.Linear(40, 60), nn.Linear(60, 10))
    profile = profile_model(model, (torch.randn(4, 40), torch.zeros(4)), lambda out, _: out.sum(), repeats=1)
    recipes = [by_name("top-k", density=0.1), by_name("powersgd", rank=1), by_name("sync-sgd"), by_name("one-bit")]
    coded = with_codings(profile, model, recipes, workers=3, repeats=1)
    assert len(coded.codings) == 3  # nothing for what goes as it is
    power = coded.coding(*recipes[1].up)  # type: ignore[union-attr]
    assert [ask.kind for ask in power.asks] == ["sum"] and power.asks[0].nbytes == 4 * (60 + 10)
    top = coded.coding(*recipes[0].up)  # type: ignore[union-attr]
    assert 0 < top.payload_nbytes <= top.capacity_nbytes and top.numel == profile.nparams
    assert min(top.encode_s, power.encode_s, power.decode_s) > 0
    assert with_codings(coded, model, recipes) == coded
    bits = coded.coding(*recipes[3].up)  # type: ignore[union-attr]
    assert min(bits.encode_s, bits.decode_s, bits.settle_s) > 0 and bits.payload_nbytes == bits.capacity_nbytes


def test_between_owners_codecs_are_measured_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    model, recipe = nn.Linear(64, 64, bias=False), by_name("one-bit")
    (memory, codec), sizes = recipe.up, list[int]()  # type: ignore[union-attr]
    encode = type(codec).encode
    monkeypatch.setattr(
        type(codec), "encode", lambda self, x, *rest: (sizes.append(x.spec.numel), encode(self, x, *rest))[1]
    )
    measure_coding(memory, codec, recipe, model, samples=4, workers=4, repeats=1)  # type: ignore[arg-type]
    assert set(sizes) == {1024} and len(sizes) % 4 == 0 and len(sizes) >= 8, "four pieces, to warm up and to measure"
