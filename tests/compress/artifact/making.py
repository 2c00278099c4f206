"""Small compressed networks to write and read."""

from __future__ import annotations

import numpy as np

from tests.compress.code.drawing import draw
from tightwire.compress.artifact import Architecture, Artifact, Tensor
from tightwire.compress.shared_weights import SharedWeights


def shared(shape: tuple[int, ...], centroids: int, density: float, seed: int = 0) -> SharedWeights:
    case = draw(shape, centroids, density, seed)
    book_K = np.sort(np.random.default_rng(seed).normal(0, 0.1, centroids)).astype(np.float16).astype(np.float32)
    return SharedWeights(shape, case.code_N, book_K)


def small() -> Artifact:
    """An mlp for 4×4 digits, every way of storing in it."""
    rng = np.random.default_rng(0)
    tensors: dict[str, Tensor] = {
        "1.weight": shared((12, 16), 8, 0.3),
        "1.bias": rng.normal(0, 1, 12).astype(np.float16).astype(np.float32),
        "3.weight": shared((6, 12), 3, 1.0, seed=1),
        "3.bias": rng.normal(0, 1, 6).astype(np.float32),
        "5.weight": shared((3, 6), 1, 0.5, seed=2),
        "5.bias": np.zeros(3, np.float32),
    }
    architecture = Architecture("mlp", (1, 4, 4), 3, {"hidden": (12, 6)})
    return Artifact(tensors, architecture, {"test_accuracy": 0.5, "seeds": [1, 2]})


def all_kinds() -> Artifact:
    """No network, but every coder, form and odd shape."""
    rng = np.random.default_rng(1)
    steps_K = (np.float32(0.03) * np.r_[-7:0, 1:8].astype(np.float32)).astype(np.float32)
    return Artifact(
        {
            "empty": shared((0, 7), 4, 1.0),
            "pruned": shared((9, 9), 4, 0.0),
            "none": SharedWeights((5,), np.zeros(5, np.uint8), np.zeros(0, np.float32)),
            "uniform": SharedWeights((10, 30), draw((10, 30), 14, 0.4, 3).code_N, steps_K),
            "many": shared((20, 30), 300, 0.6),
            "image": shared((4, 3, 5, 5), 16, 0.3),
            "scalar": np.array(3.5, np.float32),
            "long": np.abs(rng.normal(1, 0.2, 400)).astype(np.float32),
            "halves": np.abs(rng.normal(1, 0.2, 400)).astype(np.float16).astype(np.float32),
            "steps": np.array(12_345, np.int64),
            "strange": np.array([np.inf, -0.0, 1e-42, np.nan], np.float32),
            "numbers": np.array([[-(1 << 60), 5]], np.int64),
        }
    )
