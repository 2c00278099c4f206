"""Running from the compressed form on a CPU: one thread, cold cache, all contestants in turns in one run.

    python -m benchmarks.run_compressed [--part layers | convolutions | batches | filters] [--rounds 25]

Cold: before every call 64 MiB are rewritten, twice the last cache, so that weights come from memory, as they do in a
network that does not fit the cache. Torch's sparse product is taken with 32-bit indices, in which it is faster than in
the 64-bit ones that `to_sparse_csr` gives; both are reported. Parts are measured and kept one by one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import nn

from benchmarks.harness import RESULTS, ratio, write
from tightwire import models
from tightwire.compress.prune.removal import remove_filters
from tightwire.compress.run.conv import conv_form
from tightwire.compress.run.form import FORMS
from tightwire.compress.run.linear import linear_form
from tightwire.compress.shared_weights import SharedWeights
from tightwire.kernels import words

EVICT_NBYTES = 64 << 20
Contestants = dict[str, Callable[[], object]]


def shared(shape: tuple[int, ...], density: float, *, bits: int = 5) -> SharedWeights:
    """Weights pruned at random, centroids drawn at random: what the kernels cost does not depend on either."""
    random = np.random.default_rng(0)
    numel = int(np.prod(shape))
    code = random.integers(1, (1 << bits) + 1, numel, dtype=np.uint8)
    code[random.random(numel, dtype=np.float32) >= density] = 0
    return SharedWeights(shape, code, np.sort(random.normal(size=1 << bits).astype(np.float32)))


def cold(contestants: Contestants, rounds: int) -> dict[str, list[float]]:
    """Seconds of every call, in turns; the caches are emptied before each."""
    evict = np.zeros(EVICT_NBYTES // 4, np.float32)
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()
    for number in range(rounds):
        names = list(contestants)
        for name in names if number % 2 == 0 else reversed(names):
            evict += 1
            begin = time.perf_counter()
            contestants[name]()
            seconds[name].append(time.perf_counter() - begin)
    return seconds


def medians_ms(seconds: dict[str, list[float]]) -> dict[str, float]:
    """Milliseconds."""
    return {name: 1e3 * statistics.median(times) for name, times in seconds.items()}


def layer(rows: int, columns: int, density: float, rounds: int) -> dict[str, Any]:
    """One fully connected layer times one vector."""
    weights = shared((rows, columns), density)
    like = nn.Linear(columns, rows, bias=False)
    dense, sparse, ours = (linear_form(name, weights, like) for name in FORMS)
    with patch.object(words, "_avx512", lambda: None):
        plain = linear_form("compressed", weights, like)
    wide = weights.dense().to_sparse_csr()
    x = torch.randn(1, columns)
    want = dense(x)
    for form in (sparse, ours, plain):
        assert torch.allclose(form(x), want, rtol=1e-4, atol=1e-3), "the forms disagree"
    contestants: Contestants = {
        "dense": lambda: dense(x), "torch CSR, 64-bit": lambda: torch.mv(wide, x[0]),
        "torch CSR, 32-bit": lambda: sparse(x), "plain Numba": lambda: plain(x),
    }  # fmt: skip
    if words._avx512() is not None:
        contestants["AVX-512"] = lambda: ours(x)
    seconds = cold(contestants, rounds)
    mine = [name for name in ("plain Numba", "AVX-512") if name in seconds]
    return {
        "rows": rows, "columns": columns, "density": density, "ms": medians_ms(seconds),
        "over_csr": {name: ratio(seconds, name, "torch CSR, 32-bit") for name in mine},
        "over_csr_64": {name: ratio(seconds, name, "torch CSR, 64-bit") for name in mine},
        "dense_over": {name: ratio(seconds, "dense", name) for name in mine},
        "nbytes": {"dense": dense.nbytes, "torch CSR, 32-bit": sparse.nbytes, "AVX-512": ours.nbytes,
                   "plain Numba": plain.nbytes},
    }  # fmt: skip


def batches(rounds: int) -> list[dict[str, Any]]:
    """4096 × 4096: which form wins at which density and batch."""
    found = []
    for density in (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0):
        weights, like = shared((4096, 4096), density), nn.Linear(4096, 4096, bias=False)
        forms = {name: linear_form(name, weights, like) for name in FORMS}
        for batch in (1, 4, 16, 64):
            x = torch.randn(batch, 4096)
            seconds = cold({name: lambda form=form, x=x: form(x) for name, form in forms.items()}, rounds)
            found.append({"density": density, "batch": batch, "ms": medians_ms(seconds)})
    return found


def convolutions(rounds: int) -> list[dict[str, Any]]:
    """Layers of the ResNets, one image."""
    found = []
    for inputs, outputs, kernel, stride, side in (
        (64, 64, 3, 1, 56), (128, 128, 3, 1, 28), (256, 256, 3, 1, 14), (512, 512, 3, 1, 7),
        (64, 128, 3, 2, 56), (64, 256, 1, 1, 56), (16, 16, 3, 1, 32), (64, 64, 3, 1, 8),
    ):  # fmt: skip
        like = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)
        x = torch.randn(1, inputs, side, side)
        for density in (0.05, 0.1, 0.2, 0.4):
            weights = shared(tuple(like.weight.shape), density)
            forms = {name: conv_form(name, weights, like) for name in FORMS}
            seconds = cold({name: lambda form=form, x=x: form(x) for name, form in forms.items()}, rounds)
            name = f"{kernel}×{kernel}/{stride}, {inputs}→{outputs}, {side}×{side}"
            found.append({"layer": name, "density": density, "ms": medians_ms(seconds)})
    return found


@torch.no_grad()
def filters(rounds: int) -> list[dict[str, Any]]:
    """Networks from which filters were removed until half the multiply-adds are left."""
    found = []
    for name, inputs, batch in (("resnet56", (3, 32, 32), 1), ("resnet56", (3, 32, 32), 16),
                                ("resnet50", (3, 224, 224), 1)):  # fmt: skip
        torch.manual_seed(0)
        whole = models.make(name, inputs=inputs, classes=10).eval()
        cut = models.make(name, inputs=inputs, classes=10).eval()
        removed = remove_filters(cut, torch.zeros(1, *inputs), operations=0.5)
        x = torch.randn(batch, *inputs)
        nets = {"dense": whole, "filters removed": cut}
        seconds = cold({which: lambda net=net, x=x: net(x) for which, net in nets.items()}, rounds)
        found.append({
            "network": name, "batch": batch, "operations_left": removed.operations / removed.operations_before,
            "ms": medians_ms(seconds), "dense_over_removed": ratio(seconds, "dense", "filters removed"),
        })  # fmt: skip
    return found


def main() -> None:
    """Measure one part or all, and write what is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["layers", "batches", "convolutions", "filters"])
    parser.add_argument("--rounds", type=int, default=25)
    given = parser.parse_args()
    torch.set_num_threads(1)
    parts: dict[str, Callable[[], Any]] = {
        "layers": lambda: [layer(4096, 25088, 0.04, given.rounds), layer(4096, 4096, 0.1, given.rounds)],
        "batches": lambda: batches(max(3, given.rounds // 3)),
        "convolutions": lambda: convolutions(max(3, given.rounds // 2)),
        "filters": lambda: filters(given.rounds),
    }
    path = RESULTS / "run_compressed.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    measured = {name: part() for name, part in parts.items() if given.part in (None, name)}
    kept = {name: known[name] for name in parts if name in known}
    command = "python -m benchmarks.run_compressed"  # with --part, what was known of the others is kept
    write("run_compressed", {"command": command, "evicted_mib": EVICT_NBYTES >> 20, "threads": 1, **kept, **measured})


if __name__ == "__main__":
    main()
