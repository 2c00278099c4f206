"""The same weights through our coders and others', and how fast entropy coding is.

    python -m benchmarks.file_size runs/lenet-300-100.twz runs/lenet-5.twz [--peers PYTHON]
    python -m benchmarks.file_size                              how fast entropy coding is, sizes as they were

Files come from `tightwire shrink`. Everybody codes the same pruned and shared weights without loss. NNCodec, which has
no codebooks of k-means, gets the codes as whole numbers (negative below zero, as it likes them), and our bytes for
codebooks and plain tensors are added; zipnn and gzip get dense float32, and gzip the codes as well. ``--peers`` is a
Python that has zipnn and nncodec; without it those rows are missing.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import RESULTS, interleaved, write
from tightwire.compress.artifact import Artifact, read
from tightwire.compress.artifact import write as write_twz
from tightwire.compress.artifact.account import account
from tightwire.compress.code import CODERS, encode
from tightwire.compress.code.huffman import Huffman
from tightwire.compress.code.pairs import Pairs
from tightwire.compress.code.rans import Rans
from tightwire.compress.shared_weights import SharedWeights

PAPER_WIDTH = 5  # bits of a relative index for the LeNets and VGG
SYMBOLS = 8_000_000
PEERS = Path(__file__).parent / "file_size_peers.py"


def sizes(path: Path, peers: str | None) -> dict[str, Any]:
    """One network: whole files, layers, and everybody's bytes."""
    artifact = read(path)
    found = account(path)
    shared = {name: t for name, t in artifact.tensors.items() if isinstance(t, SharedWeights)}
    beside = sum(row.codebook_nbytes + row.plain_nbytes for row in found.rows)
    nbytes = {"tightwire": path.stat().st_size}
    for name in ("mixing", "rans", "huffman"):
        nbytes[f"tightwire, {name} only"] = len(write_twz(artifact, coders=[CODERS[name]]))
    nbytes["the paper's coding"] = _paper(artifact, shared)
    codes = b"".join(t.code_N.tobytes() for t in shared.values())
    nbytes["gzip of codes"] = len(gzip.compress(codes, 9)) + beside
    dense = {name: t.numpy() for name, t in artifact.state_dict().items()}
    nbytes["gzip of float32"] = len(gzip.compress(b"".join(t.tobytes() for t in dense.values()), 9))
    if peers is not None:
        theirs = _peers(peers, dense, {name: _levels(t) for name, t in shared.items()})
        nbytes["zipnn of float32"] = theirs["zipnn"]
        nbytes["NNCodec of codes"] = theirs["nncodec"] + beside
    return {
        "file": path.stem,
        "dense_nbytes": found.dense_nbytes,
        "nbytes": nbytes,
        "layers": [_layer(name, tensor) for name, tensor in shared.items()],
    }


def _paper(artifact: Artifact, shared: dict[str, SharedWeights]) -> int:
    """Huffman over codes and 5-bit indices, tables included; codebooks and all else as float32; no header at all."""
    coder = Pairs(Huffman(), PAPER_WIDTH)
    total = 0
    for name, tensor in artifact.tensors.items():
        if name in shared:
            centroids = len(shared[name].codebook_K)
            coded = encode(shared[name].code_N, shape=shared[name].shape, centroids=centroids, coders=[coder])
            total += len(coded.payload) + 4 * centroids
        else:
            total += 4 * int(np.prod(tensor.shape))
    return total


def _layer(name: str, tensor: SharedWeights) -> dict[str, Any]:
    """Bits for each kept weight under each coder, next to the entropy of single codes."""
    count = np.bincount(tensor.code_N, minlength=len(tensor.codebook_K) + 1)
    count = count[count > 0]
    centroids = len(tensor.codebook_K)
    bits: dict[str, float] = {"entropy of single codes": float((count * np.log2(count.sum() / count)).sum())}
    for coder in (CODERS["huffman"], CODERS["rans"], CODERS["mixing"]):
        payload = encode(tensor.code_N, shape=tensor.shape, centroids=centroids, coders=[coder]).payload
        bits[coder.name] = 8.0 * len(payload)
    kept = max(1, tensor.nnz)
    return {"layer": name, "shape": tensor.shape, "density": tensor.density, "centroids": centroids,
            "bits_a_kept_weight": {key: value / kept for key, value in bits.items()}}  # fmt: skip


def _levels(tensor: SharedWeights) -> Any:
    """Codes as whole numbers around zero: below it for negative centroids."""
    negative = int((tensor.codebook_K < 0).sum())
    code_N = tensor.code_N.astype(np.int32)
    level_N = np.where(code_N <= negative, code_N - negative - 1, code_N - negative)
    return np.where(code_N == 0, 0, level_N).astype(np.int32).reshape(tensor.shape)


def _peers(python: str, dense: dict[str, Any], levels: dict[str, Any]) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/dense.npz", **dense)
        np.savez(f"{folder}/levels.npz", **levels)
        done = subprocess.run([python, str(PEERS), folder], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the peers failed:\n{done.stderr[-2000:]}")
    answer: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return answer


def rates(rounds: int) -> dict[str, float]:
    """Million symbols a second, one thread, 5-bit symbols of 3.9 bits; the median of interleaved rounds."""
    symbol_N = np.clip(np.rint(np.random.default_rng(0).normal(16, 3.6, SYMBOLS)), 0, 31).astype(np.uint8)
    work: dict[str, Callable[[], None]] = {}
    for coder in (Huffman(), Rans()):
        payload = coder.write(symbol_N, 32)
        assert (coder.read(payload, count=SYMBOLS, alphabet=32) == symbol_N).all()
        work[f"{coder.name} encoding"] = lambda c=coder: c.write(symbol_N, 32)  # type: ignore[misc]
        work[f"{coder.name} decoding"] = lambda c=coder, p=payload: c.read(p, count=SYMBOLS, alphabet=32)  # type: ignore[misc]
    seconds = interleaved(work, rounds, 1)
    return {name: SYMBOLS / float(np.median(found)) / 1e6 for name, found in seconds.items()}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--peers", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    before = RESULTS / "file_size.json"
    known = json.loads(before.read_text(encoding="utf-8"))["rows"] if before.exists() else []
    rows = [sizes(path, given.peers) for path in given.files] or known
    write("file_size", {"rows": rows, "million_symbols_a_second": rates(given.rounds), "symbols": SYMBOLS})


if __name__ == "__main__":
    main()
