"""Acoustic features of speech: 13 mel-frequency cepstra and log energy, with first and second derivatives.

    every 10 ms, a window of 25 ms:  x_t ← x_t − 0.97·x_{t−1};  Hamming;  P = |FFT|²
    E_m = log Σ_f H_m(f)·P(f)          triangles H_m, evenly spaced on the mel scale 2595·log₁₀(1 + f/700)
    c_k = √(2/M)·Σ_m E_m·cos(πk(m + ½)/M),  k = 1 … 13;      log energy = log Σ_t x_t²
    Δ_t = Σ_{j=1,2} j·(f_{t+j} − f_{t−j}) / 10,              and ΔΔ = Δ of Δ

Davis, Mermelstein: Comparison of Parametric Representations for Monosyllabic Word Recognition. IEEE ASSP 1980.
Derivatives: Furui: Speaker-Independent Isolated Word Recognition Using Dynamic Features. IEEE ASSP 1986.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log10, pi, sqrt

import numpy as np
from numpy.typing import NDArray

CEPSTRA = 13
FEATURES = 3 * (CEPSTRA + 1)
FILTERS = 23
LOWEST_HZ = 64.0
CHUNK_FRAMES = 4096
Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Frames:
    """Which frames belong together: for each frame its clip, and that clip's first and last frame."""

    clip: Integers
    first: Integers
    last: Integers

    def neighbours(self, offset: int) -> Integers:
        """For each frame the one ``offset`` further, or the end of its clip."""
        return np.clip(np.arange(len(self.clip)) + offset, self.first, self.last)


def window_samples(rate_hz: int) -> int:
    """25 ms."""
    return rate_hz // 40


def features(audio_N: NDArray[np.int16], offsets_K1: Integers, rate_hz: int) -> tuple[Floats, Frames]:
    """Features of all clips, [frames, 42]; clip k is ``audio[offsets[k]:offsets[k + 1]]``, at least one window long."""
    window, hop = window_samples(rate_hz), rate_hz // 100
    count_K = 1 + (np.diff(offsets_K1) - window) // hop
    end_K = np.cumsum(count_K)
    clip_F = np.repeat(np.arange(len(count_K)), count_K)
    frames = Frames(clip_F, (end_K - count_K)[clip_F], (end_K - 1)[clip_F])
    start_F = offsets_K1[:-1][clip_F] + hop * (np.arange(len(clip_F)) - frames.first)

    size = 1 << (window - 1).bit_length()
    triangles_QM = _triangles(rate_hz, size)
    waves_MK = _waves()
    static_FD = np.empty((len(clip_F), CEPSTRA + 1), np.float32)
    for begin in range(0, len(clip_F), CHUNK_FRAMES):
        part = slice(begin, begin + CHUNK_FRAMES)
        x_FT = audio_N[start_F[part, None] + np.arange(window)].astype(np.float32)
        x_FT -= x_FT.mean(1, keepdims=True)
        static_FD[part, CEPSTRA] = np.log(np.maximum(np.square(x_FT).sum(1), 1.0))
        x_FT[:, 1:] -= np.float32(0.97) * x_FT[:, :-1]
        spectrum_FQ = np.fft.rfft(x_FT * np.hamming(window).astype(np.float32), size)
        power_FQ = np.square(spectrum_FQ.real) + np.square(spectrum_FQ.imag)
        static_FD[part, :CEPSTRA] = np.log(np.maximum(power_FQ.astype(np.float32) @ triangles_QM, 1.0)) @ waves_MK
    first_FD = _derivative(static_FD, frames)
    return np.concatenate([static_FD, first_FD, _derivative(first_FD, frames)], axis=1), frames


def _derivative(values_FD: Floats, frames: Frames) -> Floats:
    slope_FD = np.zeros_like(values_FD)
    for j in (1, 2):
        slope_FD += np.float32(j / 10) * (values_FD[frames.neighbours(j)] - values_FD[frames.neighbours(-j)])
    return slope_FD


def _triangles(rate_hz: int, size: int) -> Floats:
    """The mel filter bank: [bins of the spectrum, filters]."""
    lowest, highest = (2595 * log10(1 + hz / 700) for hz in (LOWEST_HZ, rate_hz / 2))
    edge = 700 * (10 ** (np.linspace(lowest, highest, FILTERS + 2) / 2595) - 1)
    bin_Q1 = np.arange(size // 2 + 1)[:, None] * rate_hz / size
    rising = (bin_Q1 - edge[:-2]) / (edge[1:-1] - edge[:-2])
    falling = (edge[2:] - bin_Q1) / (edge[2:] - edge[1:-1])
    return np.array(np.maximum(0, np.minimum(rising, falling)), np.float32)


def _waves() -> Floats:
    """The cosines of the transform: [filters, cepstra]."""
    m_M1 = np.arange(FILTERS)[:, None] + 0.5
    return np.array(sqrt(2 / FILTERS) * np.cos(pi * m_M1 * np.arange(1, CEPSTRA + 1) / FILTERS), np.float32)
