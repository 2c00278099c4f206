"""Tensors of codes to try coders on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from tightwire.compress.code import Codes
from tightwire.compress.shared_weights import code_type


@dataclass(frozen=True)
class Case:
    shape: tuple[int, ...]
    centroids: int
    code_N: Codes  # noqa: N815


def draw(shape: tuple[int, ...], centroids: int, density: float, seed: int) -> Case:
    """Codes with runs: whole stretches are denser than others, and few centroids are much used."""
    rng = np.random.default_rng(seed)
    numel = int(np.prod(shape, dtype=np.int64))
    wave = np.repeat(rng.random(numel // 7 + 1), 7)[:numel]
    kept = rng.random(numel) < np.clip(2 * density * wave, 0, 1) if density < 1 else np.ones(numel, bool)
    index = (centroids * rng.random(numel) ** 2).astype(np.int64) + 1
    return Case(shape, centroids, (index * kept * (centroids > 0)).astype(code_type(centroids)))


cases = st.builds(
    draw,
    st.sampled_from([(0,), (1,), (7,), (0, 5), (3, 0), (13, 31), (5, 2, 3, 3), (2, 4000), (90, 1), (1, 1, 1, 1), ()]),
    st.sampled_from([1, 2, 3, 4, 16, 31, 32, 255, 256, 700]),
    st.sampled_from([0.0, 0.003, 0.08, 0.4, 1.0]),
    st.integers(0, 1 << 20),
)
