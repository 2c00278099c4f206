"""Packed codes: they decode to what was packed, and lie in memory as they are drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.test_words import drawn
from tightwire.kernels.codebook import times
from tightwire.kernels.codebook_layout import TILE, listed, packed, tiled, unpacked, untiled

CPU = torch.device("cpu")


@given(
    rows=st.integers(1, 9), columns=st.sampled_from([1, 31, 32, 33, 127, 128, 129, 600]),
    density=st.sampled_from([0.0, 0.5, 1.0]), centroids=st.sampled_from([1, 3, 15, 16, 17, 255]),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_what_is_packed_or_listed_decodes_to_the_same_weights(
    rows: int, columns: int, density: float, centroids: int, seed: int
) -> None:
    code, codebook, dense = drawn(rows, columns, density, centroids, seed)
    for made in (
        packed(code, rows=rows, codebook_K=codebook, device=CPU),
        listed(code, rows=rows, codebook_K=codebook, device=CPU),
    ):
        assert np.array_equal(unpacked(made).double().numpy(), dense)
        x = torch.randn(2, columns)
        assert torch.equal(times(made, x), F.linear(x, torch.from_numpy(dense).float()))


@given(rows=st.integers(1, 70), stride=st.integers(1, 70))
def test_tiles_are_the_words_again_and_nothing_but_zeros_besides(rows: int, stride: int) -> None:
    word_RS = torch.arange(1, rows * stride + 1, dtype=torch.int32).view(rows, stride)
    word_DAIJ = tiled(word_RS)
    assert word_DAIJ.is_contiguous() and word_DAIJ.shape[2:] == (TILE, TILE)
    assert torch.equal(untiled(word_DAIJ, rows=rows, stride=stride), word_RS)
    assert int((word_DAIJ != 0).sum()) == rows * stride


@given(row=st.integers(0, 39), word=st.integers(0, 47))
def test_a_word_stands_where_the_drawing_says(row: int, word: int) -> None:
    word_RS = torch.arange(40 * 48, dtype=torch.int32).view(40, 48)
    band, inner = divmod(row, 16)
    tile, rest = divmod(word, 16)
    assert tiled(word_RS).view(-1)[256 * (3 * band + tile) + 16 * inner + rest] == word_RS[row, word]


def test_sixteen_centroids_fit_four_bits_only_where_nothing_is_pruned() -> None:
    full, some = np.arange(1, 33, dtype=np.uint8) % 16 + 1, np.arange(32, dtype=np.uint8) % 17
    codebook = np.linspace(-1, 1, 16, dtype=np.float32)
    assert packed(full, rows=1, codebook_K=codebook, device=CPU).bits == 4
    assert packed(some, rows=1, codebook_K=codebook, device=CPU).bits == 8


def test_the_layout_is_the_one_that_is_drawn() -> None:
    code = np.arange(32, dtype=np.uint8) % 16  # columns 0–7 lie in bits 0–7 of words 0–3, two to a word
    made = packed(code, rows=1, codebook_K=np.arange(1, 16, dtype=np.float32), device=CPU)
    word = made.word_DAIJ[0, 0, 0, :4].numpy().view(np.uint32)
    assert [hex(w) for w in word] == ["0x98109810", "0xba32ba32", "0xdc54dc54", "0xfe76fe76"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_byte_of_codes_finds_its_two_values(dtype: torch.dtype) -> None:
    codebook = np.linspace(-2, 3, 15, dtype=np.float32)
    value = torch.from_numpy(np.concatenate([[0], codebook])).to(dtype)
    four = packed(np.arange(16, dtype=np.uint8), rows=1, codebook_K=codebook, device=CPU)
    table = (four.half_256 if dtype == torch.float16 else four.brain_256).view(dtype).view(256, 2)
    assert torch.equal(table, torch.stack([value.repeat(16), value.repeat_interleave(16)], 1))
    eight = packed(np.arange(256, dtype=np.uint8), rows=1, codebook_K=np.arange(255, dtype=np.float32), device=CPU)
    table = (eight.half_256 if dtype == torch.float16 else eight.brain_256).view(dtype).view(256, 2)
    assert torch.equal(table, eight.value_V.to(dtype)[:, None].expand(256, 2))
