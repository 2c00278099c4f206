"""A profile that nobody measured: sizes and times as a paper states them, or as a law needs them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tightwire.plan.profile import Layer, Overheads, Profile, TensorShape


def made_profile(
    shapes: Mapping[str, tuple[int, ...]],
    *,
    forward_s: float,
    backward_s: float,
    update_s: float = 0.0,
    batch: int = 1,
    activation_nbytes: int = 0,
    model: str = "made",
    overheads: Overheads = Overheads(),  # noqa: B008
) -> Profile:
    """Time in proportion to parameters, gradients ready in the reverse order of ``shapes``, one layer a tensor.

    >>> profile = made_profile({"a": (10, 10), "b": (10, 10)}, forward_s=1.0, backward_s=2.0)
    >>> [tensor.ready_s for tensor in profile.tensors], profile.nbytes
    ([2.0, 1.0], 800)
    """
    numel = {name: prod(shape) for name, shape in shapes.items()}
    total = max(1, sum(numel.values()))
    ready, tensors = backward_s, []
    for name, shape in shapes.items():
        tensors.append(TensorShape(name, tuple(shape), ready))
        ready -= backward_s * numel[name] / total
    layers = tuple(
        Layer(name, forward_s * n / total, backward_s * n / total, update_s * n / total, n, activation_nbytes)
        for name, n in numel.items()
    )
    return Profile(
        model, "made", batch, tuple(tensors), layers, forward_s, backward_s, update_s,
        sequential=True, overheads=overheads,
    )  # fmt: skip
