"""A parcel: one bucket of one lane, with all the state that belongs to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from tightwire.algebra.compressor import Kept
from tightwire.algebra.grain import Grain
from tightwire.algebra.tensors import Bucket, Spec, State


@dataclass
class Parcel:
    """What travels together. ``x`` holds what is sent and, after the exchange, the sum that came back."""

    label: str
    x: Bucket
    tensors: Mapping[str, nn.Parameter]
    kept: Kept | None = None  # this worker's memory and codec state, on the way up
    kept_down: Kept | None = None  # an owner's, on the way down
    center: Bucket | None = None
    dense: bool = False  # whether what was selected travelled densely, the last time
    rule_state: State = field(default_factory=dict)
    debts: dict[str, Tensor] = field(default_factory=dict)  # what a phase that ended still owed

    def pay_debts(self) -> None:
        """Add what an earlier phase owed to what is about to be sent."""
        if self.debts:
            self.x.fasten_()
        for name, debt in self.debts.items():
            self.x[name].add_(debt)
        self.debts = {}

    def states(self) -> Iterator[tuple[str, State]]:
        """Everything that must survive, by kind."""
        if self.kept is not None:
            yield "memory", self.kept.memory
            yield "codec", self.kept.codec
        if self.kept_down is not None:
            yield "memory_down", self.kept_down.memory
            yield "codec_down", self.kept_down.codec
        if self.center is not None:
            yield "center", {"center": self.center}
        yield "rule", self.rule_state


def pack(tensors: Mapping[str, nn.Parameter], grain: Grain, *, label: str, dtype: torch.dtype | None) -> list[Parcel]:
    """Pack tensors into buckets, last tensor first: gradients become ready in about that order.

    ``dtype`` is that of the buckets; None keeps each tensor's own.
    """
    rows: dict[tuple[torch.dtype, str], list[list[str]]] = {}
    sizes: dict[tuple[torch.dtype, str], int] = {}
    for name, tensor in reversed(list(tensors.items())):
        kind = (dtype or tensor.dtype, str(tensor.device))
        nbytes = tensor.numel() * kind[0].itemsize
        buckets = rows.setdefault(kind, [])
        limit = grain.first_nbytes if len(buckets) == 1 else grain.nbytes
        if not buckets or sizes[kind] >= limit:
            buckets.append([])
            sizes[kind] = 0
        buckets[-1].append(name)
        sizes[kind] += nbytes
    parcels: list[Parcel] = []
    for (kind_dtype, device), buckets in rows.items():
        for names in buckets:
            spec = Spec.pack([(n, tuple(tensors[n].shape)) for n in names], kind_dtype, device)
            parcels.append(Parcel(f"{label}/{len(parcels)}", Bucket.zeros(spec), {n: tensors[n] for n in names}))
    return parcels
