"""A vector times a matrix of codes on a GPU, by CUDA events: every way of looking codes up, beside cuBLAS.

    python -m benchmarks.gpu_codebook [--side 8192] [--rounds 200]

Inputs rotate: as many copies of the weights as exceed the GPU's cache four times, so that every call reads from memory.
Calls are captured into a CUDA graph, one after another, so that launching costs the device nothing; the time of one
call is that of the graph divided by its calls.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.harness import write
from tightwire.kernels import triton_codebook, triton_spread
from tightwire.kernels.codebook import ListedCodes, PackedCodes, listed, packed, spread, times, vector, ways_for

CUDA = torch.device("cuda")
L2_NBYTES = 50 << 20
SPREAD_SHAPES = [(4, 4), (2, 8), (8, 2), (4, 2), (4, 1), (8, 4), (2, 4), (4, 8)]  # rows at a time, how many times
SHAPES = [
    (16, 128, 4),
    (32, 128, 4),
    (16, 256, 4),
    (16, 128, 8),
    (32, 128, 8),
    (64, 128, 8),
    (8, 256, 8),
    (16, 512, 8),
    (8, 128, 4),
]


def copies(nbytes: int) -> int:
    """How many exceed the cache four times."""
    return max(2, -(-4 * L2_NBYTES // nbytes))


def measured_us(calls: Sequence[Callable[[], object]], rounds: int) -> dict[str, float]:
    """Microseconds of one call: median and least over the rounds."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    found = []
    for _ in range(rounds + 3):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        found.append(1e3 * begin.elapsed_time(end) / len(calls))
    return {"median_us": statistics.median(found[3:]), "least_us": min(found[3:])}


def codes(side: int, centroids: int, density: float = 1.0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Random ones."""
    random = np.random.default_rng(0)
    code = random.integers(1, centroids + 1, side * side, dtype=np.uint8)
    if density < 1:
        code[random.random(side * side, dtype=np.float32) >= density] = 0
    return code, np.sort(random.normal(size=centroids).astype(np.float32))


def rotated(matrix: PackedCodes) -> list[PackedCodes]:
    """The same words at many addresses."""
    fields = {
        name: getattr(matrix, name) for name in ("rows", "columns", "bits", "value_V", "pair_256", "plane_8", "values")
    }
    return [PackedCodes(word_RS=matrix.word_RS.clone(), **fields) for _ in range(copies(matrix.word_RS.nbytes))]


def four_bits(side: int, rounds: int, dtype: torch.dtype) -> list[dict[str, Any]]:
    """All ways and shapes of programs."""
    code, codebook = codes(side, 16)
    first = packed(code, rows=side, codebook_K=codebook, device=CUDA)
    many = rotated(first)
    xs = [torch.randn(side, device=CUDA).to(dtype) for _ in many]
    found = []
    for rows, steps in SPREAD_SHAPES:
        calls = [lambda k=k, rows=rows, steps=steps: spread(triton_spread, many[k], xs[k], rows=rows, steps=steps)
                 for k in range(len(many))]  # fmt: skip
        found.append({"way": "spread", "rows": rows, "steps": steps, **measured_us(calls, rounds)})
        print(found[-1], flush=True)
    for way in ways_for(first, dtype):
        if way == "spread":
            continue
        for rows, width, warps in SHAPES:
            for shares in (1, 2):

                def call(k: int, way=way, rows=rows, width=width, warps=warps, shares=shares):  # type: ignore[no-untyped-def]
                    return vector(triton_codebook, many[k], xs[k], way=way, rows=rows, width=width, shares=shares,
                                  warps=warps)  # fmt: skip

                us = measured_us([lambda k=k, call=call: call(k) for k in range(len(many))], rounds)
                found.append({"way": way, "rows": rows, "width": width, "warps": warps, "shares": shares, **us})
                print(found[-1], flush=True)
    return found


def cublas(side: int, rounds: int, dtype: torch.dtype, batch: int = 1) -> dict[str, float]:
    """The dense product in half precision."""
    many = [torch.randn(side, side, device=CUDA, dtype=dtype) for _ in range(copies(2 * side * side))]
    xs = [torch.randn(batch, side, device=CUDA, dtype=dtype) for _ in many]
    return measured_us([lambda k=k: torch.nn.functional.linear(xs[k], many[k]) for k in range(len(many))], rounds)


def others(side: int, rounds: int, dtype: torch.dtype) -> dict[str, Any]:
    """Five and eight bits, small batches, and lists at 5%."""
    found: dict[str, Any] = {}
    for name, centroids in (("5 bits", 32), ("8 bits", 255)):
        code, codebook = codes(side, centroids)
        many = rotated(packed(code, rows=side, codebook_K=codebook, device=CUDA))
        x = torch.randn(1, side, device=CUDA).to(dtype)
        found[name] = measured_us([lambda m=m, x=x: times(m, x) for m in many], rounds)
    code, codebook = codes(side, 16)
    many = rotated(packed(code, rows=side, codebook_K=codebook, device=CUDA))
    for batch in (2, 4, 16):
        x = torch.randn(batch, side, device=CUDA).to(dtype)
        found[f"4 bits, batch {batch}"] = measured_us([lambda m=m, x=x: times(m, x) for m in many], rounds)
        found[f"cuBLAS, batch {batch}"] = cublas(side, rounds, dtype, batch)
    code, codebook = codes(side, 31, 0.05)
    sparse = listed(code, rows=side, codebook_K=codebook, device=CUDA)
    lists = [
        ListedCodes(side, side, sparse.word_K.clone(), sparse.begin_R, sparse.value_V)
        for _ in range(copies(sparse.word_K.nbytes))
    ]
    x = torch.randn(1, side, device=CUDA).to(dtype)
    found["lists at 5%"] = measured_us([lambda m=m, x=x: times(m, x) for m in lists], rounds)
    return found


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    rows = four_bits(given.side, given.rounds, torch.float16)
    best = min(rows, key=lambda row: row["median_us"])
    write("gpu_codebook", {
        "side": given.side, "best": best, "cublas_fp16": cublas(given.side, given.rounds, torch.float16),
        "floor_us": given.side * given.side / 2 / 4.8e12 * 1e6, "rows": rows,
        "others": others(given.side, given.rounds, torch.float16),
    })  # fmt: skip


if __name__ == "__main__":
    main()
