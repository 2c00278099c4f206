"""What memories and codecs cost on a model's own tensors, through the very `Compressor` that the runtime would take.

A codec that asks all workers is answered as if all had said the same. What is measured: from the gradient to the
payload; for each payload of somebody, back; and keeping the rest.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

from tightwire import kernels
from tightwire.algebra.codec import Ask, Codec, Payload, UsesFactors, drive
from tightwire.algebra.compressor import Compressor, Kept, refuse_not_finite
from tightwire.algebra.memory import Memory
from tightwire.algebra.recipe import AnyRecipe, Recipe, Ways, leaves
from tightwire.algebra.tensors import Bucket, Outer, canonical
from tightwire.algebra.world import At, World
from tightwire.memories.nothing import nothing
from tightwire.plan.profile import Asked, Coding, Profile, coding_key
from tightwire.plan.stopwatch import Clock, Stopwatch
from tightwire.run.parcel import pack
from tightwire.run.ranges import Pieces

_ENOUGH = 1 << 21  # elements: larger models are measured on a part of their tensors
_EPOCHS = 1e9  # past every warm-up
_SETTLING, _SETTLING_S = 10, 0.05  # steps that do not count at most, and seconds after which no more are taken
Timed = tuple[float, float, float, int]


def with_codings(
    profile: Profile,
    model: nn.Module,
    recipes: Iterable[AnyRecipe],
    *,
    workers: int = 4,
    repeats: int = 2,
    clock: Clock = time.perf_counter,
    enough: int = _ENOUGH,
) -> Profile:
    """The profile with the costs of all memories and codecs of these recipes that it does not hold yet.

    Gradients are those that the model holds (``p.grad``), or normal numbers. Workers who measure together on cores that
    they share take ``time.process_time`` for a clock. About ``enough`` elements are coded: the cost of more is in
    proportion.
    """
    found = dict(profile.codings)
    for recipe in (leaf.recipe for entry in recipes for leaf in leaves(entry)):
        for memory, codec in _pairs(recipe):
            key = coding_key(memory, codec)
            if key not in found and not (codec.identity and not memory.keeps):
                found[key] = measure_coding(
                    memory, codec, recipe, model, samples=profile.batch, workers=workers, repeats=repeats, clock=clock,
                    enough=enough,
                )  # fmt: skip
    return profile.but(codings=found)


def _pairs(recipe: Recipe) -> Iterator[tuple[Memory, Codec]]:
    yield recipe.up
    if recipe.exchange.pattern == "owners":
        yield recipe.down
    if recipe.exchange.pattern == "server" and isinstance(recipe.codec, Ways):
        yield nothing(), recipe.codec.down


def measure_coding(  # noqa: PLR0913
    memory: Memory,
    codec: Codec,
    recipe: Recipe,
    model: nn.Module,
    *,
    samples: int,
    workers: int = 4,
    repeats: int = 2,
    clock: Clock = time.perf_counter,
    enough: int = _ENOUGH,
) -> Coding:
    """One memory and codec, on the buckets of one recipe; ``samples`` is a batch, for codecs that send its factors."""
    tensors = _some(model, enough)
    device = next(iter(tensors.values())).device
    compressor = kernels.find(memory, codec, device)
    world, watch = World(0, workers), Stopwatch(device, clock)
    total = [0.0, 0.0, 0.0, 0]
    numel = capacity = 0
    asks: list[list[Asked]] = []
    for parcel in pack(tensors, recipe.grain, label="probe", dtype=torch.float32):
        _fill(parcel.x, tensors, codec, samples)
        asked: list[Asked] = []
        kept = compressor.init(parcel.x.spec)
        once = _between_owners if recipe.exchange.pattern == "owners" else _once
        runs: list[Timed] = []
        settled, until = 1, float("inf")  # the first compiles; a threshold finds its height from step to step
        while len(runs) < settled + repeats:
            runs.append(once(compressor, parcel.x, kept, At(len(runs), _EPOCHS, 0.1, world), asked, watch))
            until = min(until, time.perf_counter() + _SETTLING_S)
            settled += len(runs) == settled < _SETTLING and time.perf_counter() < until
        for place in range(4):
            total[place] += statistics.median(run[place] for run in runs[settled:])
        numel += parcel.x.spec.numel
        capacity += _capacity(codec, parcel.x, recipe, At(repeats, _EPOCHS, 0.1, world))
        asks.append(asked[: len(asked) // len(runs)])
    encode, decode, settle, payload = total
    return Coding(encode, decode, settle, numel, round(payload), capacity, _added(asks))


def _capacity(codec: Codec, x: Bucket, recipe: Recipe, at: At) -> int:
    """Bytes at most, of all pieces where workers own one each."""
    specs = [cut for _, cut in x.spec.cut(at.world.size)] if recipe.exchange.pattern == "owners" else [x.spec]
    return sum(codec.capacity(spec, at) for spec in specs)


def _some(model: nn.Module, enough: int) -> dict[str, nn.Parameter]:
    """The first tensors that are enough to measure, and the first rows of one that alone would be far more."""
    found: dict[str, nn.Parameter] = {}
    left = enough
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and left > 0:
            taken = _rows(parameter, left) if parameter.numel() > 2 * left else parameter
            found[canonical(name)] = taken
            left -= taken.numel()
    return found


def _rows(parameter: nn.Parameter, numel: int) -> nn.Parameter:
    """The first rows, so many elements at least, with their gradients."""
    rows = -(-numel // max(1, parameter[0].numel()))
    part, gradient = nn.Parameter(parameter.detach()[:rows]), parameter.grad
    if gradient is not None:
        part.grad = (gradient.to_dense() if gradient.layout != torch.strided else gradient)[:rows]
    return part


def _fill(x: Bucket, tensors: dict[str, nn.Parameter], codec: Codec, samples: int) -> None:
    """Gradients into the bucket; for codecs that look for factors, gradients that have some."""
    generator = torch.Generator().manual_seed(0)
    for name, view in x.items():
        gradient = tensors[name].grad
        if isinstance(codec, UsesFactors) and view.dim() == 2:
            u, v = (torch.randn(samples, width, generator=generator) for width in view.shape)
            outer = Outer(u.to(view.device), v.to(view.device))
            x.aside[name] = outer
            view.copy_(outer.u.T @ outer.v)
        elif gradient is not None:
            view.copy_(gradient.to_dense() if gradient.layout != torch.strided else gradient)
        else:
            view.copy_(1e-2 * torch.randn(view.shape, generator=generator))


def _once(compressor: Compressor, x: Bucket, kept: Kept, at: At, asked: list[Asked], watch: Stopwatch) -> Timed:
    """Seconds to encode, to decode one payload, to settle (and to begin decoding); bytes of the payload."""
    gradient = x.flat.clone()
    start = watch.mark()
    done = drive(compressor.compress(x, kept, at), _answers(asked, at.world.size))
    encoded = watch.mark()
    compressor.expand_(x, [done.payload], kept, at)
    one = watch.mark()
    many = [Payload(done.payload.wire.clone(), done.payload.local) for _ in range(at.world.size)]
    several = watch.mark()
    if compressor.codec.combines == "gather":
        compressor.expand_(x, many, kept, at)
    more = watch.mark()
    compressor.settle(done, x, kept, at)
    end = watch.mark()
    first, rest = watch.seconds(encoded, one), watch.seconds(several, more)
    each = max(0.0, (rest - first) / (at.world.size - 1)) if compressor.codec.combines == "gather" else first
    settle = watch.seconds(more, end) + max(0.0, first - each)
    nbytes = done.payload.nbytes
    x.flat.copy_(gradient)
    return watch.seconds(start, encoded), each, settle, nbytes


def _between_owners(
    compressor: Compressor, x: Bucket, kept: Kept, at: At, asked: list[Asked], watch: Stopwatch
) -> Timed:
    """The same where every worker owns a piece: memory and codec by themselves, piece by piece (`run.conduct`)."""
    memory, codec, size = compressor.memory, compressor.codec, at.world.size
    gradient = x.flat.clone()
    start = watch.mark()
    if memory.keeps:
        refuse_not_finite(x)
    value = memory.before(x, kept.memory, at)
    pieces = [drive(codec.encode(piece, {}, at), _answers(asked, size)) for piece in value.cut(size)]
    encoded = watch.mark()
    x.flat.zero_()
    for cut, piece in zip(x.cut(size), pieces, strict=True):
        codec.decode_(cut, Payload(piece.payload.wire), {}, at)
    decoded = watch.mark()
    memory.after(value, Pieces([piece.sent for piece in pieces]), x, kept.memory, at)
    end = watch.mark()
    x.flat.copy_(gradient)
    nbytes = sum(piece.payload.nbytes for piece in pieces)
    return watch.seconds(start, encoded), watch.seconds(encoded, decoded), watch.seconds(decoded, end), nbytes


def _answers(asked: list[Asked], workers: int) -> Callable[[Ask], Tensor]:
    def answer(ask: Ask) -> Tensor:
        asked.append(Asked(ask.kind, ask.tensor.nbytes))
        match ask.kind:
            case "gather":
                return torch.stack([ask.tensor] * workers)
            case "sum":
                return ask.tensor * workers
            case _:
                return ask.tensor.clone()

    return answer


def _added(asks: list[list[Asked]]) -> tuple[Asked, ...]:
    """The questions of all buckets, the first with the first."""
    longest = max(asks, key=len, default=[])
    return tuple(
        Asked(ask.kind, sum(of[place].nbytes for of in asks if place < len(of))) for place, ask in enumerate(longest)
    )
