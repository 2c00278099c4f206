"""So many bits a code, and nothing else: what no model makes smaller."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tightwire.algebra.errors import PayloadError
from tightwire.compress.code.protocol import Codes
from tightwire.compress.shared_weights import code_type

_AT_ONCE = 1 << 16  # codes unpacked at a time: a bit takes a byte for a moment


@dataclass(frozen=True)
class Fixed:
    """Codes of as many bits as the largest needs, lowest bit first."""

    name: str = "fixed"

    def encode(self, code_N: Codes, *, width: int, centroids: int) -> bytes:
        """Packed bits."""
        bits = centroids.bit_length()
        place_b = np.arange(bits, dtype=np.uint16)
        bit_NB = (code_N.astype(np.uint16)[:, None] >> place_b) & 1
        return np.packbits(bit_NB.astype(np.bool_), bitorder="little").tobytes()

    def decode(self, payload: bytes, *, numel: int, width: int, centroids: int) -> Codes:
        """Codes from packed bits."""
        bits = centroids.bit_length()
        if len(payload) != (numel * bits + 7) // 8:
            raise PayloadError(f"{len(payload)} bytes cannot be {numel} codes of {bits} bits")
        code_N = np.zeros(numel, code_type(centroids))
        for begin in range(0, numel, _AT_ONCE):
            part = code_N[begin : begin + _AT_ONCE]
            byte_B = np.frombuffer(payload, np.uint8)[begin * bits // 8 :]
            bit_NB = np.unpackbits(byte_B, count=len(part) * bits, bitorder="little") if bits else byte_B
            for place in range(bits):
                part |= bit_NB[place::bits].astype(code_N.dtype) << place
        if numel and int(code_N.max()) > centroids:
            raise PayloadError(f"code {int(code_N.max())} has no centroid among {centroids}")
        return code_N
