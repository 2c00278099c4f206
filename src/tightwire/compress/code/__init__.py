"""Codes as bytes: `encode` takes the smallest of several coders, `decode` reads what any of them wrote.

    fixed      so many bits a code, nothing modelled
    huffman    Deep Compression: positions as relative indices, both they and the codes Huffman-coded
    rans       the same pairs under rANS: no loss to whole bits
    mixing     arithmetic coding under mixed contexts: far below the entropy of single codes, and slow

Every coder gives back exactly what went in, and refuses bytes that it cannot have written with a `PayloadError`.
"""

from tightwire.compress.code.choose import CODERS, Coded, decode, encode
from tightwire.compress.code.protocol import Coder, Codes

__all__ = ["CODERS", "Coded", "Coder", "Codes", "decode", "encode"]
