"""Entropy coding loops in plain Python: the definition that compiled ones must equal. Slow."""

from __future__ import annotations

from tightwire.kernels.entropy_plain_mixing import mixing_decode, mixing_encode
from tightwire.kernels.entropy_plain_words import huffman_decode, huffman_encode, rans_decode, rans_encode, scatter

__all__ = [
    "huffman_decode",
    "huffman_encode",
    "mixing_decode",
    "mixing_encode",
    "rans_decode",
    "rans_encode",
    "scatter",
]
