"""Plain numbers in few bytes, exactly: in the smallest type that loses nothing, byte by byte through the coders.

    f2 f4         float16, float32                 i1 i2 i4 i8    whole numbers
    linear        a codebook of step·i for consecutive whole i, 0 left out where it would be: uniform quantisation

All first bytes come first, then all second bytes, …: the bytes of exponents are alike, those of fractions are not.
Numbers that were rounded to float16 beforehand take two bytes; nothing is rounded here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightwire.algebra.errors import PayloadError
from tightwire.compress.code import Coded, decode, encode

Array: TypeAlias = NDArray[Any]
FORMS: dict[str, np.dtype[Any]] = {form: np.dtype(f"<{form}") for form in ("f2", "f4", "i1", "i2", "i4", "i8")}
LINEAR = struct.Struct("<fi")
_WORTH = 64  # numbers from which a coder may pay


@dataclass(frozen=True)
class Stored:
    """Numbers as bytes. ``planes``: coder and bytes of each plane; none if all are as they are."""

    form: str
    planes: tuple[tuple[str, int], ...]
    payload: bytes


def pack(array: Array) -> Stored:
    """Numbers as bytes.

    >>> stored = pack(np.array([1.0, -2.5], np.float32))
    >>> stored.form, list(stored.payload)
    ('f2', [0, 0, 60, 193])
    """
    form = _smallest(array)
    flat_N = np.ascontiguousarray(array, FORMS[form]).reshape(-1)
    plane_PN = flat_N.view(np.uint8).reshape(array.size, flat_N.itemsize).T
    raw = plane_PN.tobytes()
    if array.size < _WORTH:
        return Stored(form, (), raw)
    coded = [encode(np.ascontiguousarray(plane), shape=(array.size,), centroids=255) for plane in plane_PN]
    payload = b"".join(part.payload for part in coded)
    if len(payload) >= len(raw):
        return Stored(form, (), raw)
    return Stored(form, tuple((part.coder, len(part.payload)) for part in coded), payload)


def unpack(stored: Stored, *, shape: tuple[int, ...]) -> Array:
    """The numbers, float32 or int64."""
    kind, numel = FORMS[stored.form], prod(shape)
    plane_NP = np.empty((numel, kind.itemsize), np.uint8)
    at = 0
    for number, (coder, nbytes) in enumerate(stored.planes or [("fixed", numel)] * kind.itemsize):
        part = Coded(coder, stored.payload[at : at + nbytes])
        plane_NP[:, number] = decode(part, shape=(numel,), centroids=255)
        at += nbytes
    plain = plane_NP.reshape(-1).view(kind).reshape(shape)
    return plain.astype(np.float32 if kind.kind == "f" else np.int64, copy=False)


def _smallest(array: Array) -> str:
    """The first form that gives back every bit."""
    forms = ("f2", "f4") if array.dtype == np.float32 else ("i1", "i2", "i4", "i8")
    for form in forms[:-1]:
        with np.errstate(over="ignore", invalid="ignore"):
            if array.astype(FORMS[form]).astype(array.dtype).tobytes() == array.tobytes():
                return form
    return forms[-1]


def pack_codebook(codebook_K: NDArray[np.float32]) -> Stored:
    """Centroids as bytes; those of uniform quantisation as step and first multiple."""
    other = pack(codebook_K)
    if len(codebook_K) and len(other.payload) > LINEAR.size:
        step = float(np.abs(codebook_K).min())
        first = round(float(codebook_K[0]) / step) if step else 0
        if 0 < abs(first) < 1 << 17 and linear(step, first, len(codebook_K)).tobytes() == codebook_K.tobytes():
            return Stored("linear", (), LINEAR.pack(step, first))
    return other


def unpack_codebook(stored: Stored, *, centroids: int) -> NDArray[np.float32]:
    """Centroids from bytes."""
    if stored.form != "linear":
        return np.asarray(unpack(stored, shape=(centroids,)), np.float32)
    if len(stored.payload) != LINEAR.size:
        raise PayloadError(f"a linear codebook takes {LINEAR.size} bytes, not {len(stored.payload)}")
    step, first = LINEAR.unpack(stored.payload)
    with np.errstate(all="ignore"):
        return linear(step, first, centroids)


def linear(step: float, first: int, count: int) -> NDArray[np.float32]:
    """``count`` multiples of a step, 0 left out.

    >>> linear(0.5, -2, 4).tolist()
    [-1.0, -0.5, 0.5, 1.0]
    """
    multiple_K = np.arange(first, first + count, dtype=np.int64)
    if first <= 0:
        multiple_K[multiple_K >= 0] += 1
    return (np.float32(step) * multiple_K.astype(np.float32)).astype(np.float32)
