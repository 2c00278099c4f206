"""Penn Treebank, 2 × 1500 LSTM, 4 workers on the in-process link of one GPU: DGC at 99.9% beside `sync-sgd`.

    python -m benchmarks.ptb ARM --folder ptb --epochs 12 --state DIR      arms: sync-sgd, dgc, dgc-small
    python -m benchmarks.ptb join A.json B.json …                          write benchmarks/results/ptb.json

SGD, rate 20, divided by 4 when validation does not improve; clip 0.25; segments of 35 words; global batch 20; dropout
0.65. Runs for ``--minutes`` at most and goes on from ``--state`` when started again. The text is licensed by the LDC.
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
from tightwire.algebra.recipe import AnyRecipe
from tightwire.exchanges.allreduce import ring
from tightwire.recipes import dgc, sync_sgd
from tightwire.recipes.dgc import warm_up
from tightwire.run.checkpoint import keep_newest

WORKERS, BATCH, BPTT, RATE, CLIP = 4, 20, 35, 20.0, 0.25


def arm(name: str, steps: int) -> AnyRecipe:
    """The recipe; DGC warms up in the first epoch, a level each quarter, and has no momentum."""
    density = warm_up(0.001, every=steps // 4, unit="step")
    match name:
        case "sync-sgd":
            return sync_sgd(ring())
        case "dgc":
            return dgc(density, momentum=0.0)
        case _:
            return dgc(density, momentum=0.0, values="log8", gaps="rice")


def perplexity(model: torch.nn.Module, streams_CL: Tensor) -> float:
    """Of a text in parallel streams."""
    model.eval()
    total, words = 0.0, 0
    with torch.no_grad():
        for begin in range(0, streams_CL.shape[1] - 1, BPTT):
            y = streams_CL[:, begin + 1 : begin + 1 + BPTT]
            x = streams_CL[:, begin : begin + y.shape[1]]
            total += float(F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum"))
            words += y.numel()
    model.train()
    return math.exp(total / words)


def train(rank: int, asked: argparse.Namespace, texts: dict[str, Tensor], log: list[dict[str, Any]]) -> None:
    """One worker."""
    torch.manual_seed(1111)
    model = models.make("lstm-lm", inputs=(BPTT,), classes=10_000).cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    steps = asked.steps or (texts["train"].shape[1] - 1) // BPTT
    mine = texts["train"][rank * BATCH // WORKERS : (rank + 1) * BATCH // WORKERS]
    torch.manual_seed(1000 + rank + 17 * len(log))
    best, begin = min((row["valid"] for row in log), default=math.inf), time.perf_counter()
    with tw.join(arm(asked.arm, steps), model, optimizer) as wire:
        if (asked.state / "checkpoint").exists():
            wire.load(asked.state / "checkpoint")
            optimizer.param_groups[0]["lr"] = log[-1]["next_rate"]
        for epoch in range(len(log), asked.epochs):
            sent = wire.ledger.state()
            model.reset()  # type: ignore[operator]
            for step in range(steps):
                x = mine[:, step * BPTT : (step + 1) * BPTT]
                y = mine[:, step * BPTT + 1 : (step + 1) * BPTT + 1]
                F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
                wire.clip(CLIP)
                wire.step()
            found = torch.tensor([perplexity(model, texts["valid"]) if rank == 0 else 0.0])
            wire.add_up_(found)
            valid = float(found)
            if valid >= best:
                optimizer.param_groups[0]["lr"] /= 4
            best = min(best, valid)
            if rank == 0:
                test = perplexity(model, texts["test"])
                log.append(row(epoch, valid, test, time.perf_counter() - begin, optimizer, sent, wire.ledger.state()))
                print(log[-1], flush=True)
            wire.save(asked.state / "checkpoint")
            if rank == 0:  # only now: a log that is ahead of its checkpoint would lie
                keep_newest(asked.state / "checkpoint", 1)
                (asked.state / "log.json").write_text(json.dumps(log))
            if wire.agree(time.perf_counter() - begin > 60 * asked.minutes):
                break


def row(
    epoch: int, valid: float, test: float, seconds: float, optimizer: Any, before: dict[str, Any], after: dict[str, Any]
) -> dict[str, Any]:
    """What one epoch came to; the ratio is that of its own payloads."""
    dense, payload = (after[key] - before[key] for key in ("dense_bytes", "payload_bytes"))
    return {
        "epoch": epoch + 1, "valid": valid, "test": test, "seconds": seconds,
        "next_rate": optimizer.param_groups[0]["lr"], "payload_ratio": dense / payload if payload else None,
        "gpu": torch.cuda.get_device_name(),
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
    asked = parser.parse_args()
    if asked.arm == "join":
        write("ptb", {"workers": WORKERS, "arms": {log.parent.name: json.loads(log.read_text()) for log in asked.logs}})
        return
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    asked.state.mkdir(parents=True, exist_ok=True)
    text = data.load("text", asked.folder)
    texts = {"train": text.train.streams_CL.cuda()}  # type: ignore[attr-defined]
    for name, part in (("valid", text.valid), ("test", text.test)):
        texts[name] = part.streams_CL.cuda()  # type: ignore[union-attr]
    log = json.loads((asked.state / "log.json").read_text()) if (asked.state / "log.json").exists() else []
    tw.together(WORKERS, lambda rank: train(rank, asked, texts, log))


if __name__ == "__main__":
    main()
