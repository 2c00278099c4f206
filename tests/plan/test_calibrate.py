"""What messages cost between real processes: numbers that can be, and a prediction made of them."""

from dataclasses import asdict

import torch
from torch import nn

from tests.worlds import processes
from tightwire.plan.asked import with_asking
from tightwire.plan.calibrate import calibrate, measured_link
from tightwire.plan.cluster import PERFECT
from tightwire.recipes.catalogue import by_name
from tightwire.run.join import join


def costs_here() -> tuple[dict[str, float], float]:
    model = nn.Linear(1, 1)
    with join(by_name("sync-sgd"), model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
        transport = wire._worker.transport
        costs = calibrate(transport, large_nbytes=1 << 20, rounds=2)
        link = measured_link(transport, costs, nbytes=1 << 20)
        return asdict(with_asking(costs, transport, PERFECT, numel=1 << 16, rounds=2)), link.bytes_per_s


def test_every_cost_is_found_between_processes() -> None:
    (costs, bytes_per_s), _ = processes(2, costs_here)
    for name in ("message_s", "framed_s", "job_s", "native_s", "ask_s"):
        assert 0 < costs[name] < 1, name
    for name in ("byte_s", "native_byte_s", "ask_byte_s", "add_byte_s", "serve_byte_s"):
        assert 0 <= costs[name] < 1e-6, name
    assert costs["add_byte_s"] > 0 and costs["serve_byte_s"] > 0
    assert bytes_per_s > 1e6
