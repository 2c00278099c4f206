"""A vector times a matrix of codes on a GPU, by CUDA events, in programs of several shapes, beside cuBLAS.

    python -m benchmarks.gpu_codebook [--side 8192] [--rounds 100] [--passes 5]

Inputs rotate: as many copies of the weights as exceed the GPU's cache four times, so that every call reads from memory.
Calls are captured into a CUDA graph, one after another, so that launching costs the device little; the time of one
call is that of the graph divided by its calls, the median of the rounds of a pass, and of the passes, which the ways
take in turns. Ways of the CUDA kernel: as the package launches it, a call reads its codes ahead while the call before
it still runs (programmatic dependent launch); with "ordinary launches" it begins when that one has ended. A graph that
goes "four times around" has four times as many calls over the same inputs, and less of its own beginning in each.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.harness import write
from tightwire.kernels import codebook_bulk, triton_tiles
from tightwire.kernels.codebook import bulk, tiles, times
from tightwire.kernels.codebook_layout import ListedCodes, PackedCodes, listed, packed

CUDA = torch.device("cuda")
L2_NBYTES = 50 << 20
SHAPES = [(2, 8), (1, 8), (4, 8), (2, 16), (1, 16), (4, 16), (1, 4), (2, 4), (8, 8)]  # bands of 16 rows, warps
SLOTS = (4, 5, 6, 7, 8)  # of the CUDA kernel
Call = Callable[[], object]


def copies(nbytes: int) -> int:
    """How many exceed the cache four times."""
    return max(2, -(-4 * L2_NBYTES // nbytes))


def recorded(calls: Sequence[Call]) -> torch.cuda.CUDAGraph:
    """The calls as a graph, after each was made once."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def replayed_us(graph: torch.cuda.CUDAGraph, rounds: int) -> list[float]:
    """Microseconds of each round, after three that do not count."""
    found = []
    for _ in range(rounds + 3):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        found.append(1e3 * begin.elapsed_time(end))
    return found[3:]


def in_turns_us(ways: dict[str, Sequence[Call]], rounds: int, passes: int) -> dict[str, dict[str, Any]]:
    """Microseconds of one call of each way: the median of the passes' medians, those, and the least round."""
    graphs = {name: recorded(calls) for name, calls in ways.items()}
    found: dict[str, list[list[float]]] = {name: [] for name in ways}
    for _ in range(passes):
        for name, graph in graphs.items():
            found[name].append([us / len(ways[name]) for us in replayed_us(graph, rounds)])
    medians = {name: [statistics.median(us) for us in took] for name, took in found.items()}
    return {
        name: {"median_us": statistics.median(medians[name]), "least_us": min(map(min, took)),
               "passes_us": medians[name], "calls": len(ways[name])}
        for name, took in found.items()
    }  # fmt: skip


def measured_us(calls: Sequence[Call], rounds: int) -> dict[str, float]:
    """The same of one way in one pass."""
    found = in_turns_us({"": calls}, rounds, 1)[""]
    return {name: found[name] for name in ("median_us", "least_us")}


def codes(side: int, centroids: int, density: float = 1.0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Random ones."""
    random = np.random.default_rng(0)
    code = random.integers(1, centroids + 1, side * side, dtype=np.uint8)
    if density < 1:
        code[random.random(side * side, dtype=np.float32) >= density] = 0
    return code, np.sort(random.normal(size=centroids).astype(np.float32))


def rotated(matrix: PackedCodes) -> list[PackedCodes]:
    """The same words at many addresses."""
    return [replace(matrix, word_DAIJ=matrix.word_DAIJ.clone()) for _ in range(copies(matrix.word_DAIJ.nbytes))]


def four_bits(side: int, rounds: int, passes: int, dtype: torch.dtype) -> dict[str, Any]:
    """The product as the package chooses its kernel, in turns with the dense one; other shapes of either kernel."""
    code, codebook = codes(side, 16)
    many = rotated(packed(code, rows=side, codebook_K=codebook, device=CUDA))
    xs = [torch.randn(1, side, device=CUDA).to(dtype) for _ in many]
    shape, chosen = codebook_bulk.shape_for(side, 4 * many[0].stride, xs[0]), calls_of(times, many, xs)
    ways: dict[str, Sequence[Call]] = {"best": chosen, "four_times_around": 4 * chosen}
    kernel, slots = "Triton", []
    if shape and bulk(many[0], xs[0]) is not None:
        kernel = f"CUDA, {shape}"
        ordinary = partial(codebook_bulk.product, shape=shape, dependent=False)
        ways |= {"ordinary_launches": calls_of(ordinary, many, xs)}
        slots = [replace(shape, slots=count) for count in SLOTS]
    weight = [torch.randn(side, side, device=CUDA, dtype=dtype) for _ in range(copies(dtype.itemsize * side * side))]
    found = in_turns_us({**ways, "cublas_fp16": calls_of(_dense, weight, xs)}, rounds, passes)
    print(kernel, found, flush=True)
    cublas_us, best = found.pop("cublas_fp16"), found.pop("best")
    overlap = "programmatic dependent launch" if "ordinary_launches" in ways else None
    return {
        "best": {"kernel": kernel, "overlap": overlap, **best, **found}, "cublas_fp16": cublas_us,
        "slots": {
            s.slots: measured_us(calls_of(partial(codebook_bulk.product, shape=s), many, xs), rounds) for s in slots
        },
        "rows": [
            {"rows": 16 * high, "warps": warps,
             **measured_us(calls_of(partial(tiles, triton_tiles, high=high, warps=warps), many, xs), rounds)}
            for high, warps in SHAPES
        ],
    }  # fmt: skip


def calls_of(
    product: Callable[[Any, torch.Tensor], object], many: Sequence[Any], xs: Sequence[torch.Tensor]
) -> list[Call]:
    """A call for each copy of the weights."""
    return [partial(product, matrix, x) for matrix, x in zip(many, xs, strict=False)]


def _dense(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(x, weight)


def cublas(side: int, rounds: int, dtype: torch.dtype, batch: int = 1) -> dict[str, float]:
    """The dense product in half precision."""
    many = [torch.randn(side, side, device=CUDA, dtype=dtype) for _ in range(copies(dtype.itemsize * side * side))]
    xs = [torch.randn(batch, side, device=CUDA, dtype=dtype) for _ in many]
    return measured_us(calls_of(_dense, many, xs), rounds)


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
    parser.add_argument("--passes", type=int, default=5)
    given = parser.parse_args()
    write("gpu_codebook", {
        "side": given.side, "rounds": given.rounds, "passes": given.passes,
        **four_bits(given.side, given.rounds, given.passes, torch.float16),
        "floor_us": given.side * given.side / 2 / 4.8e12 * 1e6,
        "others": others(given.side, given.rounds, torch.float16),
    })  # fmt: skip


if __name__ == "__main__":
    main()
