"""Exploration: a normal distribution cut to [0, 1] around what the actor says.

    a ~ N(μ, σ²) given 0 ≤ a ≤ 1,     σ = σ₀ · decay^(episodes since warm-up)

Drawn by its inverse: u uniform between the tails' shares, a = Φ⁻¹(u). He et al.: AMC. ECCV 2018, section 3.3.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

_LEAST_SIGMA = 1e-6


def truncated_normal(mean_A: NDArray[np.float32], sigma: float, random: np.random.Generator) -> NDArray[np.float32]:
    """One draw for each mean, between 0 and 1.

    >>> random = np.random.default_rng(0)
    >>> draws = [float(truncated_normal(np.array([0.9], np.float32), 0.5, random)[0]) for _ in range(100)]
    >>> 0 <= min(draws) < 0.3 < 0.8 < max(draws) <= 1
    True
    """
    if sigma < _LEAST_SIGMA:
        return mean_A
    drawn = []
    for mean in mean_A:
        bell = NormalDist(float(mean), sigma)
        low, high = bell.cdf(0.0), bell.cdf(1.0)
        share = low + (high - low) * random.random()
        drawn.append(bell.inv_cdf(min(max(share, 1e-12), 1 - 1e-12)))
    return np.clip(np.array(drawn, np.float32), 0.0, 1.0)
