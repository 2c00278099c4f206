"""Penn Treebank, 2 × 1500 LSTM, 4 workers on the in-process link of one GPU: DGC at 99.9% beside `sync-sgd`.

    python -m benchmarks.ptb ARM --folder ptb --epochs 12 --state DIR      arms: sync-sgd, dgc, dgc-small
    python -m benchmarks.ptb join A.json B.json …                          write benchmarks/results/ptb.json

SGD, rate 20, divided by 4 when validation does not improve; clip 0.25; segments of 35 words; global batch 20; dropout
0.65. Runs for ``--minutes`` at most and goes on from the newest checkpoint in ``--state`` when started again: a
checkpoint after ``--save-every`` epochs, at the end, and when the time is over. Each has a log of its own, written
before it, so that log and weights are never of different epochs. The text is licensed by the LDC.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import tightwire as tw
from benchmarks.harness import write
from tightwire import data, models
from tightwire.algebra.grain import whole
from tightwire.algebra.recipe import AnyRecipe
from tightwire.exchanges.allreduce import ring
from tightwire.recipes import dgc, sync_sgd
from tightwire.recipes.dgc import warm_up
from tightwire.run.checkpoint import keep_newest, latest

WORKERS, BATCH, BPTT, RATE, CLIP = 4, 20, 35, 20.0, 0.25


def arm(name: str, steps: int, warm_up_epochs: float) -> AnyRecipe:
    """The recipe; DGC warms up in the first epoch or a part of it, in four equal stretches, and has no momentum."""
    density = warm_up(0.001, every=max(1, round(warm_up_epochs * steps / 4)), unit="step")
    match name:
        case "sync-sgd":
            return sync_sgd(ring(), grain=whole())  # in one process a bucket more is only a round more to wait for
        case "dgc":
            return dgc(density, momentum=0.0, grain=whole())
        case _:
            return dgc(density, momentum=0.0, values="log8", gaps="rice", grain=whole())


def perplexity(model: torch.nn.Module, streams_CL: Tensor) -> float:
    """Of a text in parallel streams."""
    model.eval()
    total, words = torch.zeros((), dtype=torch.float64, device=streams_CL.device), 0
    with torch.no_grad():
        for begin in range(0, streams_CL.shape[1] - 1, BPTT):
            y = streams_CL[:, begin + 1 : begin + 1 + BPTT]
            x = streams_CL[:, begin : begin + y.shape[1]]
            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum")
            words += y.numel()
    model.train()
    return math.exp(float(total) / words)


def train(rank: int, asked: argparse.Namespace, texts: dict[str, Tensor]) -> None:
    """One worker."""
    torch.manual_seed(1111)
    model = models.make("lstm-lm", inputs=(BPTT,), classes=10_000).to(asked.device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    steps = asked.steps or (texts["train"].shape[1] - 1) // BPTT
    mine = texts["train"][rank * BATCH // WORKERS : (rank + 1) * BATCH // WORKERS]
    with tw.join(arm(asked.arm, steps, asked.warm_up), model, optimizer) as wire:
        log = go_on(wire, asked.state, steps)
        if log:
            optimizer.param_groups[0]["lr"] = log[-1]["next_rate"]
        torch.manual_seed(1000 + rank + 17 * len(log))
        begin, before = time.perf_counter(), log[-1]["seconds"] if log else 0.0
        for epoch in range(len(log), asked.epochs):
            sent = wire.ledger.state()
            model.reset()  # type: ignore[operator]
            for step in range(steps):
                x = mine[:, step * BPTT : (step + 1) * BPTT]
                y = mine[:, step * BPTT + 1 : (step + 1) * BPTT + 1]
                F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
                wire.clip(CLIP, wait=False)
                wire.step()
            found = torch.zeros(2, dtype=torch.float64)
            if rank == 0:
                found = torch.tensor([perplexity(model, texts[name]) for name in ("valid", "test")]).double()
            wire.add_up_(found)
            valid, test = found.tolist()
            if valid >= min((row["valid"] for row in log), default=math.inf):
                optimizer.param_groups[0]["lr"] /= 4
            seconds = before + time.perf_counter() - begin
            log.append(row(epoch, valid, test, seconds, optimizer, sent, wire.ledger.state()))
            if rank == 0:
                print(log[-1], flush=True)
            late = wire.agree(time.perf_counter() - begin > 60 * asked.minutes)
            if late or len(log) == asked.epochs or len(log) % asked.save_every == 0:
                keep(wire, asked.state, log)
            if late:
                break


def keep(wire: tw.Wire, state: Path, log: list[dict[str, Any]]) -> None:
    """A checkpoint and its log, by all workers together; the log first, under the number of the step."""
    if wire.rank == 0:
        (state / f"log-{wire.clock}.json").write_text(json.dumps(log))
    wire.save(state / "checkpoint")
    if wire.rank == 0:
        keep_newest(state / "checkpoint", 1)
        (state / "log.json").write_text(json.dumps(log))


def go_on(wire: tw.Wire, state: Path, steps: int) -> list[dict[str, Any]]:
    """Take up the newest checkpoint, if there is one; the log that belongs to it."""
    if latest(state / "checkpoint") is None:
        return []
    wire.load(state / "checkpoint")
    log: list[dict[str, Any]] = json.loads((state / f"log-{wire.clock}.json").read_text())
    assert len(log) * steps == wire.clock, f"{len(log)} epochs of {steps} steps are not the {wire.clock} of {state}"
    return log


def row(
    epoch: int, valid: float, test: float, seconds: float, optimizer: Any, before: dict[str, Any], after: dict[str, Any]
) -> dict[str, Any]:
    """What one epoch came to; the ratio is that of its own payloads."""
    dense, payload = (after[key] - before[key] for key in ("dense_bytes", "payload_bytes"))
    return {
        "epoch": epoch + 1, "valid": valid, "test": test, "seconds": seconds,
        "next_rate": optimizer.param_groups[0]["lr"], "payload_ratio": dense / payload if payload else None,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }  # fmt: skip


def main() -> None:
    """Train one arm, or join the logs of several."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("arm")
    parser.add_argument("logs", nargs="*", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--steps", type=int, help="of an epoch, for a trial")
    parser.add_argument("--state", type=Path, default=Path("ptb"))
    parser.add_argument("--save-every", type=int, default=1, help="epochs between two checkpoints")
    parser.add_argument("--warm-up", type=float, default=1.0, help="epochs until DGC's density is 0.001")
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_args()
    if asked.arm == "join":
        write("ptb", {"workers": WORKERS, "arms": {log.parent.name: json.loads(log.read_text()) for log in asked.logs}})
        return
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    asked.state.mkdir(parents=True, exist_ok=True)
    text = data.load("text", asked.folder)
    parts = {"train": text.train, "valid": text.valid, "test": text.test}
    texts = {name: part.streams_CL.to(asked.device) for name, part in parts.items()}  # type: ignore[union-attr]
    tw.together(WORKERS, lambda rank: train(rank, asked, texts))


if __name__ == "__main__":
    main()
