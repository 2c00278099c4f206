"""The law of compiled loops: bytes and results equal to the plain ones, on good bytes and on bad ones."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compress.code.drawing import draw
from tightwire.compress.code.huffman import _slots, lengths, words
from tightwire.compress.code.rans import frequencies
from tightwire.kernels import entropy as lookup
from tightwire.kernels.entropy import entropy
from tightwire.kernels.entropy_tables import COST, LEAST, SQUASH, STRETCH, exact_squash, exact_stretch

FAST, PLAIN = entropy("numba"), entropy("plain")
shapes = st.sampled_from([(40, 7), (3, 200), (11, 25), (1, 1), (0, 3)])
few = settings(max_examples=15)


@few
@given(shapes, st.sampled_from([1, 2, 5, 16, 300]), st.sampled_from([0.05, 0.5, 1.0]), st.integers(0, 999))
def test_mixing(shape: tuple[int, int], centroids: int, density: float, seed: int) -> None:
    code_N = draw(shape, centroids, density, seed).code_N.astype(np.uint16)
    how = {"width": shape[1], "stride": 1 + seed % shape[1], "rate": 1 + seed % 7, "centroids": centroids}
    made = FAST.mixing_encode(code_N, **how)
    assert made == PLAIN.mixing_encode(code_N, **how)
    damaged = bytes(b ^ (seed % 251 if i == len(made) // 2 else 0) for i, b in enumerate(made))
    for payload in (made, damaged, made[:-1], made + b"\1\2\3\4\5\6"):
        fast_N, plain_N = np.zeros_like(code_N), np.zeros_like(code_N)
        assert FAST.mixing_decode(payload, fast_N, **how) == PLAIN.mixing_decode(payload, plain_N, **how)
        np.testing.assert_array_equal(fast_N, plain_N)
    np.testing.assert_array_equal(code_N, _decoded(made, code_N, how))


def _decoded(made: bytes, like_N: np.ndarray, how: dict[str, int]) -> np.ndarray:
    back_N = np.zeros_like(like_N)
    assert FAST.mixing_decode(made, back_N, **how)[0]
    return back_N


@few
@given(st.integers(0, 999), st.sampled_from([2, 9, 400, 5000]), st.sampled_from([2, 33]))
def test_huffman(seed: int, count: int, kinds: int) -> None:
    symbol_N = np.r_[0, 1, draw((count,), kinds - 1, 0.7, seed).code_N].astype(np.uint8)
    length_A = lengths(np.bincount(symbol_N, minlength=kinds), 12)
    streams = 4 if count >= 4096 else 1
    share = -(-len(symbol_N) // streams)
    parts = [symbol_N[k * share : (k + 1) * share] for k in range(streams)]
    made = [FAST.huffman_encode(part, length_A, words(length_A)) for part in parts]
    for part, bytes_ in zip(parts, made, strict=True):
        np.testing.assert_array_equal(bytes_, PLAIN.huffman_encode(part, length_A, words(length_A)))
    ends, body = np.cumsum([len(m) for m in made]), np.concatenate(made)
    symbol_T, length_T = _slots(length_A)
    for bytes_, fine in ((body, True), (body ^ np.uint8(seed % 256), None), (body[:-1], False)):
        cut = np.minimum(ends, len(bytes_))
        fast_N, plain_N = np.zeros_like(symbol_N), np.zeros_like(symbol_N)
        tables = {"symbol_T": symbol_T, "length_T": length_T}
        said = FAST.huffman_decode(bytes_, cut, out_N=fast_N, **tables)
        assert said == PLAIN.huffman_decode(bytes_, cut, out_N=plain_N, **tables)
        assert fine is None or said == fine
        if said:
            np.testing.assert_array_equal(fast_N, plain_N)


@few
@given(st.integers(0, 999), st.integers(0, 300), st.sampled_from([2, 33]))
def test_rans(seed: int, count: int, kinds: int) -> None:
    symbol_N = np.r_[0, 1, draw((count,), kinds - 1, 0.7, seed).code_N].astype(np.uint8)
    freq_A = frequencies(np.bincount(symbol_N, minlength=kinds), 12)
    below_A = (np.cumsum(freq_A) - freq_A).astype(np.uint32)
    made = FAST.rans_encode(symbol_N, freq_A, below_A=below_A, scale=12)
    np.testing.assert_array_equal(made, PLAIN.rans_encode(symbol_N, freq_A, below_A=below_A, scale=12))
    symbol_T = np.repeat(np.arange(kinds), freq_A).astype(np.uint16)
    step_T = (((freq_A[symbol_T] - 1) << 16) + np.arange(4096) - below_A[symbol_T]).astype(np.uint32)
    for bytes_, fine in ((made, True), (made ^ np.uint8(seed % 256), None), (np.r_[made, made[:2]], False)):
        fast_N, plain_N = np.zeros_like(symbol_N), np.zeros_like(symbol_N)
        said = FAST.rans_decode(bytes_, symbol_T, step_T, fast_N)
        assert said == PLAIN.rans_decode(bytes_, symbol_T, step_T, plain_N)
        assert fine is None or said == fine
        np.testing.assert_array_equal(fast_N, plain_N)


@few
@given(st.integers(0, 999), st.integers(0, 60))
def test_scatter(seed: int, count: int) -> None:
    gap_T = np.random.default_rng(seed).integers(0, 4, count).astype(np.uint16)
    code_T = np.arange(1, count + 1, dtype=np.uint8)
    fast_N, plain_N = np.zeros(100, np.uint8), np.zeros(100, np.uint8)
    assert FAST.scatter(gap_T, code_T, fast_N) == PLAIN.scatter(gap_T, code_T, plain_N)
    np.testing.assert_array_equal(fast_N, plain_N)


def test_tables_cannot_differ_between_machines() -> None:
    """An exponential that errs by its last bit moves an entry by 1e-11 at most; none lies so near to a half."""
    for exact in (exact_stretch(), exact_squash()):
        from_half = np.abs(exact - np.floor(exact) - 0.5)
        assert from_half.min() > 1e-7
    assert (STRETCH + STRETCH[::-1] == 0).all() and (SQUASH + SQUASH[::-1] == 65536).all()
    assert SQUASH.min() == LEAST and (np.diff(COST) <= 0).all()


def test_without_numba_there_is_a_notice_and_plain_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        if name.endswith("numba"):
            raise ImportError(name)
        return PLAIN

    monkeypatch.setattr(lookup, "import_module", missing)
    entropy.cache_clear()
    with pytest.warns(RuntimeWarning, match="pip install numba"):
        assert entropy() is PLAIN
    entropy.cache_clear()
    warnings.resetwarnings()
