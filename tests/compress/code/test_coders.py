"""Every coder: exactly what went in comes out, and what it cannot have written is refused in a sentence."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compress.code.drawing import Case, cases, draw
from tightwire.algebra.errors import PayloadError
from tightwire.compress.code import CODERS, Coded, decode, encode
from tightwire.compress.code import choose as choosing
from tightwire.compress.code.choose import positions_nbytes, row_width
from tightwire.compress.code.fixed import Fixed
from tightwire.compress.code.huffman import Huffman
from tightwire.compress.code.mixing import Mixing, strides
from tightwire.compress.code.pairs import Pairs
from tightwire.compress.code.rans import Rans

EVERY = [*CODERS.values(), *(Pairs(symbols, r) for symbols in (Huffman(), Rans()) for r in (0, 1, 4, 5, 12))]


def ident(coder: object) -> str:
    return f"{coder.name}-{getattr(coder, 'width', '')}"  # type: ignore[attr-defined]


@pytest.mark.parametrize("coder", EVERY, ids=ident)
@given(case=cases)
def test_what_goes_in_comes_out(coder: choosing.Coder, case: Case) -> None:
    width = row_width(case.shape)
    payload = coder.encode(case.code_N, width=width, centroids=case.centroids)
    assert payload is not None
    back = coder.decode(payload, numel=len(case.code_N), width=width, centroids=case.centroids)
    np.testing.assert_array_equal(back, case.code_N)


@given(cases)
def test_the_smallest_is_taken(case: Case) -> None:
    coded = encode(case.code_N, shape=case.shape, centroids=case.centroids)
    others = [
        len(encode(case.code_N, shape=case.shape, centroids=case.centroids, coders=[c]).payload)
        for c in CODERS.values()
    ]
    assert len(coded.payload) == min(others)
    back = decode(coded, shape=case.shape, centroids=case.centroids)
    np.testing.assert_array_equal(back, case.code_N)
    assert back.dtype == case.code_N.dtype


@pytest.mark.parametrize("name", list(CODERS))
def test_large_tensors_are_cut_into_blocks_that_are_decoded_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "BLOCK", 500)
    case = draw((33, 40), 16, 0.2, seed=1)
    coded = encode(case.code_N, shape=case.shape, centroids=16, coders=[CODERS[name]])
    assert len(choosing.pieces(coded.payload, 3)) == 3  # 12 rows of 40 in each
    np.testing.assert_array_equal(decode(coded, shape=case.shape, centroids=16), case.code_N)


@pytest.mark.parametrize("name", list(CODERS))
@given(case=cases, seed=st.integers(0, 1 << 20), edit=st.sampled_from(["flip", "cut", "add", "noise"]))
def test_hostile_bytes_are_refused_or_decoded_but_never_crash(name: str, case: Case, seed: int, edit: str) -> None:
    rng = np.random.default_rng(seed)
    payload = bytearray(encode(case.code_N, shape=case.shape, centroids=case.centroids, coders=[CODERS[name]]).payload)
    if edit == "flip" and payload:
        payload[rng.integers(len(payload))] ^= 1 << rng.integers(8)
    elif edit == "cut":
        payload = payload[: rng.integers(len(payload) + 1)]
    elif edit == "add":
        payload += rng.bytes(5)
    else:
        payload = bytearray(rng.bytes(len(payload)))
    began = time.perf_counter()
    try:
        back = decode(Coded(name, bytes(payload)), shape=case.shape, centroids=case.centroids)
    except PayloadError:
        pass
    else:
        assert back.shape == case.code_N.shape and (not len(back) or back.max() <= case.centroids)
    assert time.perf_counter() - began < 5  # compiling included


def test_one_byte_cannot_keep_a_decoder_busy() -> None:
    with pytest.raises(PayloadError, match="more than 256 a byte"):
        Mixing().decode(b"\x01\x03\0", numel=1 << 22, width=1 << 11, centroids=16)
    with pytest.raises(PayloadError, match="damaged"):  # within that bound, but every position a code of 8 bits
        Mixing().decode(b"\x01\x03" + bytes(2000), numel=300_000, width=300, centroids=255)


def test_an_unknown_coder_is_named() -> None:
    with pytest.raises(PayloadError, match="no coder 'zip'; there are fixed, huffman"):
        decode(Coded("zip", b""), shape=(1,), centroids=1)


def test_contexts_see_what_single_codes_do_not() -> None:
    """Images: whole regions of pixels matter to no unit. Below the entropy of codes and of gaps."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:28, :28]
    important = np.exp(-((y - 14) ** 2 + (x - 14) ** 2) / 60).ravel()
    chance = 0.3 * important
    kept = rng.random((100, 784)) < chance
    code_N = (kept * rng.integers(1, 17, kept.shape)).astype(np.uint8).ravel()
    nbytes = {
        name: len(encode(code_N, shape=(100, 784), centroids=16, coders=[c]).payload) for name, c in CODERS.items()
    }
    count = np.bincount(code_N)
    entropy_nbytes = float((count * np.log2(count.sum() / count)).sum()) / 8
    assert nbytes["mixing"] < 0.95 * min(nbytes["huffman"], nbytes["rans"])
    known = 100 * float(-(chance * np.log2(chance) + (1 - chance) * np.log2(1 - chance)).sum())
    if_told_nbytes = (known + 4 * np.count_nonzero(code_N)) / 8  # by who knows each pixel's chance beforehand
    assert if_told_nbytes < nbytes["mixing"] < 1.05 * if_told_nbytes < entropy_nbytes


def test_lines_of_an_image_are_found() -> None:
    line = np.tile(np.r_[np.zeros(10), np.ones(6)], 20)
    assert 16 in strides(np.tile(line, (8, 1)).ravel().astype(np.uint8), 320)


def test_positions_and_codes_are_told_apart() -> None:
    case = draw((60, 100), 16, 0.1, seed=0)
    for name in ("huffman", "mixing"):
        coded = encode(case.code_N, shape=case.shape, centroids=16, coders=[CODERS[name]])
        positions = positions_nbytes(coded, shape=case.shape, centroids=16)
        kept = np.count_nonzero(case.code_N)
        assert positions is not None and 0.2 * kept < positions < 0.8 * len(coded.payload)
    fixed = encode(case.code_N, shape=case.shape, centroids=16, coders=[Fixed()])
    assert positions_nbytes(fixed, shape=case.shape, centroids=16) is None
