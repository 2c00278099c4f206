"""What hypothesis draws: layouts and buckets, the awkward ones included."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from tightwire.algebra.tensors import Bucket, Spec

shapes = st.one_of(
    st.just(()),
    st.tuples(st.integers(0, 40)),
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3)),
)
"""Scalars, vectors (also empty), matrices, convolutions."""


@st.composite
def specs(draw: st.DrawFn, most: int = 4) -> Spec:
    """A layout of a few tensors."""
    drawn = draw(st.lists(shapes, min_size=1, max_size=most))
    return Spec.pack([(f"t{i}", shape) for i, shape in enumerate(drawn)])


kinds = st.sampled_from(["normal", "zeros", "ties", "wide", "negative"])


def filled(spec: Spec, kind: str, seed: int) -> Bucket:
    """A bucket of a kind: ordinary, all zero, full of equal values, of very different sizes, or all negative."""
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(spec.numel, generator=generator)
    flat = {
        "normal": normal,
        "zeros": torch.zeros(spec.numel),
        "ties": normal.sign() * 0.5,
        "wide": normal * 10 ** (6 * torch.rand(spec.numel, generator=generator) - 3),
        "negative": -normal.abs(),
    }[kind]
    return Bucket(flat.to(spec.dtype), spec)


@st.composite
def buckets(draw: st.DrawFn) -> Bucket:
    """A bucket of any kind."""
    return filled(draw(specs()), draw(kinds), draw(st.integers(0, 2**31)))


@st.composite
def worlds_of_buckets(draw: st.DrawFn, most_workers: int = 4) -> list[Bucket]:
    """One bucket for each worker, all of one layout."""
    spec, workers = draw(specs()), draw(st.integers(1, most_workers))
    return [filled(spec, draw(kinds), draw(st.integers(0, 2**31))) for _ in range(workers)]
