"""Project Adam: factors go up, weights come down, and the bytes are the formula's."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tightwire.algebra.recipe import AnyRecipe
from tightwire.algebra.tensors import Bucket, Outer, Spec
from tightwire.algebra.world import At
from tightwire.codecs.outer import outer
from tightwire.recipes import asgd, project_adam
from tightwire.run.join import join
from tightwire.run.together import together
from tightwire.telemetry.ledger import Ledger
from tightwire.testing.meeting import meet

STEPS, N, M = 5, 50, 30
PARAMETERS = N * M + N


def ledger_of(recipe: AnyRecipe, samples: int, workers: int) -> Ledger:
    def one(rank: int) -> Ledger:
        torch.manual_seed(0)
        model = nn.Linear(M, N)
        with join(recipe, model, torch.optim.SGD(model.parameters(), lr=0.01)) as wire:
            for step in range(STEPS):
                generator = torch.Generator().manual_seed(100 * step + rank)
                F.mse_loss(model(torch.randn(samples, M, generator=generator)), torch.zeros(samples, N)).backward()
                wire.step()
        return wire.ledger

    return together(workers, one)[0]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("samples", [1, 18, 19])
def test_bytes_up_are_factors_while_they_are_smaller(samples: int, workers: int) -> None:
    ledger = ledger_of(project_adam(), samples, workers)
    thin = samples * (N + M)  # below N·M up to 18 samples
    assert ledger.tx_bytes == STEPS * (4 + 4 * (min(thin, N * M) + N))
    assert ledger.rx_bytes == ledger_of(asgd(), samples, workers).rx_bytes >= STEPS * 4 * PARAMETERS


@pytest.mark.parametrize("samples", [0, 1, 7, 40])
def test_what_comes_out_is_what_went_in(samples: int) -> None:
    torch.manual_seed(1)
    x = Bucket.zeros(Spec.pack([("b", (N,)), ("w", (N, M)), ("c", (2, 3, 4))]))
    pair = Outer(torch.randn(samples, N), torch.randn(samples, M))
    x.flat.normal_()
    x["w"].copy_(0.5 * pair.u.T @ pair.v)
    x.aside["w"] = pair
    payload = meet([outer().encode(x, {}, At())]).results[0].payload
    out = Bucket.zeros(x.spec)
    outer().decode_(out, payload, {}, At())
    torch.testing.assert_close(out.flat, x.flat, rtol=1e-5, atol=1e-5)
    assert payload.nbytes == 4 * (1 + N + 24 + min(samples * (N + M), N * M))
