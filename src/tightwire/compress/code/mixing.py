"""Arithmetic coding under mixed contexts: the smallest bytes, at about ten million positions a second.

`kernels.entropy_plain_mixing` defines it. A stride (how far before a position its neighbour "above" lies: a line of an
image, a kernel) and a learning rate stand before the bytes; the encoder tries a few.

    varint stride, byte rate, bytes
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tightwire.algebra.errors import PayloadError
from tightwire.compress.code.bits import Reader, varint
from tightwire.compress.code.protocol import Codes
from tightwire.compress.shared_weights import code_type
from tightwire.kernels.entropy import entropy
from tightwire.kernels.entropy_tables import EACH, FREE

_RATES = (2, 5)
_FIRST_RATE = 3
_SAMPLE = 1 << 18
_MOST_RATE = 64
MOST_STRIDE = 4096


@dataclass(frozen=True)
class Mixing:
    """Contexts from neighbours, columns and rows, mixed."""

    name: str = "mixing"

    def encode(self, code_N: Codes, *, width: int, centroids: int) -> bytes | None:
        """The smallest over a few strides and rates; None where a byte would stand for more than decoders believe."""
        wide_N = code_N.astype(np.uint16)
        sample_N = wide_N[: max(1, _SAMPLE // max(1, width)) * width]
        stride, rate = best_settings(sample_N, width=width, centroids=centroids)
        body = entropy().mixing_encode(wide_N, width=width, stride=stride, rate=rate, centroids=centroids)
        coded_bits = len(code_N) + int(np.count_nonzero(code_N)) * max(0, centroids - 1).bit_length()
        return varint(stride) + bytes([rate]) + body if coded_bits <= FREE + EACH * len(body) else None

    def decode(self, payload: bytes, *, numel: int, width: int, centroids: int) -> Codes:
        """Walk the same way, predicting the same."""
        return self._read(payload, numel, width, centroids)[0]

    def split(self, payload: bytes, *, numel: int, width: int, centroids: int) -> int:
        """Bytes that tell positions, by what the model charged for them."""
        return min(len(payload), round(self._read(payload, numel, width, centroids)[1] / 8))

    def _read(self, payload: bytes, numel: int, width: int, centroids: int) -> tuple[Codes, float]:
        reader = Reader(payload)
        stride, rate = reader.varint(min(MOST_STRIDE, max(1, width))), reader.varint(_MOST_RATE)
        if numel > FREE + EACH * len(payload):
            raise PayloadError(f"{len(payload)} bytes announce {numel} positions: more than {EACH} a byte are refused")
        if not stride or not rate:
            raise PayloadError(f"a stride of {stride} and a rate of {rate} must be at least 1")
        wide_N = np.zeros(numel, np.uint16)
        fine, bits = entropy().mixing_decode(
            reader.rest(), wide_N, width=width, stride=stride, rate=rate, centroids=centroids
        )
        if not fine:
            raise PayloadError("arithmetic-coded bytes are damaged")
        return wide_N.astype(code_type(centroids)), bits


def best_settings(code_N: Codes, *, width: int, centroids: int) -> tuple[int, int]:
    """The stride and rate with the fewest bytes."""

    def nbytes(setting: tuple[int, int]) -> int:
        stride, rate = setting
        return len(entropy().mixing_encode(code_N, width=width, stride=stride, rate=rate, centroids=centroids))

    stride, _ = min(((s, _FIRST_RATE) for s in strides(code_N, width)), key=nbytes)
    return min(((stride, rate) for rate in (_FIRST_RATE, *_RATES)), key=nbytes)


def strides(code_N: Codes, width: int) -> list[int]:
    """Where a neighbour may lie: next to a position, or as far as kept positions repeat most within rows."""
    kept = (code_N[: len(code_N) // max(1, width) * width].reshape(-1, max(1, width)) > 0).astype(np.float32)
    if width < 4 or not kept.size:
        return [1]
    lags = np.arange(2, min(width, 130))
    together = np.array([(kept[:, lag:] * kept[:, :-lag]).mean() for lag in lags])
    best = lags[np.argsort(-together, kind="stable")[:3]]
    return [1, *(int(lag) for lag in best)]
