"""Entropy coding loops compiled by Numba. One thread each, without the interpreter's lock: blocks run side by side."""

from __future__ import annotations

from tightwire.kernels.entropy_numba_huffman import huffman_decode, huffman_encode
from tightwire.kernels.entropy_numba_mixing import mixing_decode, mixing_encode
from tightwire.kernels.entropy_numba_rans import rans_decode, rans_encode, scatter

__all__ = [
    "huffman_decode",
    "huffman_encode",
    "mixing_decode",
    "mixing_encode",
    "rans_decode",
    "rans_encode",
    "scatter",
]
