"""Huffman's code: between the entropy and one bit more, limited, canonical. rANS: nearer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra.errors import PayloadError
from tightwire.compress.code.huffman import Huffman, lengths, most_bits, words
from tightwire.compress.code.rans import Rans, frequencies

counts = st.lists(st.integers(0, 1 << 30) | st.integers(0, 3), min_size=2, max_size=300).filter(
    lambda found: sum(c > 0 for c in found) >= 2
)


def entropy(count_A: np.ndarray) -> float:
    share = count_A[count_A > 0] / count_A.sum()
    return float(-(share * np.log2(share)).sum())


@given(counts)
def test_the_mean_word_is_within_a_bit_of_the_entropy(found: list[int]) -> None:
    count_A = np.array(found)
    length_A = lengths(count_A, most_bits(len(count_A)))
    mean = float((count_A * length_A).sum() / count_A.sum())
    assert entropy(count_A) - 1e-9 <= mean < entropy(count_A) + 1
    assert ((length_A > 0) == (count_A > 0)).all() and length_A.max() <= 12
    assert sum(2.0 ** -int(bits) for bits in length_A[length_A > 0]) == 1


@given(st.integers(2, 200))
def test_limited_words_are_the_best_of_their_length(kinds: int) -> None:
    """Counts of a Fibonacci kind would take words as long as there are symbols."""
    count_A = np.array([int(1.6**k) + 1 for k in range(min(kinds, 40))])
    length_A = lengths(count_A, 12)
    assert length_A.max() <= 12
    free = float((count_A * lengths(count_A, 64)).sum())
    assert free <= (count_A * length_A).sum() <= 1.02 * free


def test_no_word_begins_another() -> None:
    length_A = lengths(np.array([40, 3, 0, 9, 9, 1, 1]), 12)
    texts = [format(int(w), f"0{n}b")[::-1] for w, n in zip(words(length_A), length_A, strict=True) if n]
    assert not any(a != b and a.startswith(b) for a in texts for b in texts)


@given(counts)
def test_frequencies_add_up_and_forget_nobody(found: list[int]) -> None:
    count_A = np.array(found)
    freq_A = frequencies(count_A, 12)
    assert freq_A.sum() == 4096 and ((freq_A > 0) == (count_A > 0)).all()


def test_a_long_sequence_takes_what_theory_says() -> None:
    symbol_N = np.clip(np.rint(np.random.default_rng(0).normal(16, 3.6, 200_000)), 0, 31).astype(np.uint8)
    bits = entropy(np.bincount(symbol_N))
    assert bits * 25_000 < len(Rans().write(symbol_N, 32)) < 1.005 * bits * 25_000
    assert bits * 25_000 < len(Huffman().write(symbol_N, 32)) < 1.02 * bits * 25_000


@pytest.mark.parametrize("coder", [Huffman(), Rans()])
def test_one_kind_of_symbol_takes_no_bits(coder: Huffman | Rans) -> None:
    payload = coder.write(np.full(100_000, 7, np.uint8), 32)
    assert len(payload) == 2
    assert (coder.read(payload, count=100_000, alphabet=32) == 7).all()


@pytest.mark.parametrize("coder", [Huffman(), Rans()])
def test_damaged_tables_are_refused(coder: Huffman | Rans) -> None:
    payload = coder.write(np.arange(20, dtype=np.uint8), 20)
    with pytest.raises(PayloadError, match=r"fill the code|add to|word of|middle"):
        coder.read(payload[:1] + bytes([payload[1] ^ 0x55]) + payload[2:], count=20, alphabet=20)
    with pytest.raises(PayloadError, match="0 kinds"):
        coder.read(b"\0", count=3, alphabet=20)
    with pytest.raises(PayloadError, match="exceeds 19"):
        coder.read(bytes([1, 20]), count=3, alphabet=20)
