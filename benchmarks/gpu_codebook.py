"""A vector times a matrix of codes on a GPU, by CUDA events, in programs of several shapes, beside cuBLAS.

    python -m benchmarks.gpu_codebook [--side 8192] [--rounds 100]

Inputs rotate: as many copies of the weights as exceed the GPU's cache four times, so that every call reads from memory.
Calls are captured into a CUDA graph, one after another, so that launching costs the device nothing; the time of one
call is that of the graph divided by its calls. The CUDA kernel reads codes ahead while the call before it still runs;
"ordinary launches" do not.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.harness import write
from tightwire.kernels import codebook_bulk, triton_tiles
from tightwire.kernels.codebook import ListedCodes, PackedCodes, bulk, listed, packed, tiles, times

CUDA = torch.device("cuda")
L2_NBYTES = 50 << 20
SHAPES = [(2, 8), (1, 8), (4, 8), (2, 16), (1, 16), (4, 16), (1, 4), (2, 4), (8, 8)]  # tiles of 16 rows, warps


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
    return [replace(matrix, word_RS=matrix.word_RS.clone()) for _ in range(copies(matrix.word_RS.nbytes))]


def four_bits(side: int, rounds: int, dtype: torch.dtype) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The product as the package chooses its kernel, and Triton's kernel in all shapes of programs."""
    code, codebook = codes(side, 16)
    many = rotated(packed(code, rows=side, codebook_K=codebook, device=CUDA))
    xs = [torch.randn(1, side, device=CUDA).to(dtype) for _ in many]
    shape = codebook_bulk.shape_for(side, 4 * many[0].word_RS.shape[1], xs[0])
    chosen = measured_us([lambda k=k: times(many[k], xs[k]) for k in range(len(many))], rounds)
    taken: dict[str, Any] = {"kernel": "Triton", **chosen}
    if shape and bulk(many[0], xs[0]) is not None:
        calls = [lambda k=k: codebook_bulk.product(many[k], xs[k], shape=shape, dependent=False)
                 for k in range(len(many))]  # fmt: skip
        taken |= {"kernel": f"CUDA, {shape}", "ordinary_launches": measured_us(calls, rounds)}
    print(taken, flush=True)
    found = []
    for high, warps in SHAPES:
        calls = [lambda k=k, high=high, warps=warps: tiles(triton_tiles, many[k], xs[k], high=high, warps=warps)
                 for k in range(len(many))]  # fmt: skip
        found.append({"rows": 16 * high, "warps": warps, **measured_us(calls, rounds)})
        print(found[-1], flush=True)
    return taken, found


def cublas(side: int, rounds: int, dtype: torch.dtype, batch: int = 1) -> dict[str, float]:
    """The dense product in half precision."""
    many = [torch.randn(side, side, device=CUDA, dtype=dtype) for _ in range(copies(dtype.itemsize * side * side))]
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
    for batch in (2, 4, 8, 16):
        x = torch.randn(batch, side, device=CUDA).to(dtype)
        found[f"4 bits, batch {batch}"] = measured_us([lambda m=m, x=x: times(m, x) for m in many], rounds)
        found[f"cuBLAS, batch {batch}"] = cublas(side, rounds, dtype, batch)
    x = torch.randn(1, side, device=CUDA)
    found["4 bits, single precision"] = measured_us([lambda m=m, x=x: times(m, x) for m in many], rounds)
    found["cuBLAS, single precision"] = cublas(side, rounds, torch.float32)
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
    best, rows = four_bits(given.side, given.rounds, torch.float16)
    write("gpu_codebook", {
        "side": given.side, "best": best, "cublas_fp16": cublas(given.side, given.rounds, torch.float16),
        "floor_us": given.side * given.side / 2 / 4.8e12 * 1e6, "rows": rows,
        "others": others(given.side, given.rounds, torch.float16),
    })  # fmt: skip


if __name__ == "__main__":
    main()
