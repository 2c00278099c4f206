"""Which parts fit together. Every refusal names the values and the remedy."""

from __future__ import annotations

from itertools import pairwise

from tightwire.algebra.codec import Codec
from tightwire.algebra.errors import RecipeError
from tightwire.algebra.recipe import AnyRecipe, Leaf, Parts, Phase, Phases, Recipe, Tiers, Ways, forever, leaves
from tightwire.algebra.rule import Local, Measures, Rule
from tightwire.algebra.schedule import Meta, Verdict, View
from tightwire.algebra.tensors import Bucket, Spec
from tightwire.algebra.world import START

_PROBE = Spec.pack([("matrix", (64, 64))])  # what a codec is asked about
_TWO_WAY = ("owners", "server")  # patterns of exchanges that go up and down
_LOCKSTEP_CLOCKS = 64  # how many steps of a schedule are tried when it must be due at every one of them


def check(recipe: AnyRecipe) -> AnyRecipe:
    """Return the recipe if its parts fit together, else raise `RecipeError`."""
    _check_shape(recipe)
    for leaf in leaves(recipe):
        _check_seats(leaf.recipe)
        _check_ways(leaf.recipe)
        _check_codecs(leaf.recipe)
        _check_payload(leaf.recipe)
        _check_directions(leaf.recipe)
        _check_clock(leaf.recipe)
        _check_memory(leaf.recipe)
        _check_split(leaf.recipe)
        _check_tiers(leaf)
    return recipe


def _check_shape(recipe: AnyRecipe) -> None:
    match recipe:
        case Recipe():
            return
        case Phases(name, legs):
            ends = [leg.until for leg in legs]
            if not ends or ends[-1] != forever or ends != sorted(set(ends)) or ends[0] <= 0:
                raise RecipeError(
                    f"{name}: phases end at steps {ends}; they must be positive, grow, and the last one must be "
                    "`forever`"
                )
            for leg in legs:
                _check_shape(leg.recipe)
            _check_handover(name, legs)
        case Tiers(name, _, outer):
            if any(leaf.inner is not None for leaf in leaves(outer)):
                raise RecipeError(f"{name}: tiers inside tiers; group the workers once, with one `by`")
            _check_shape(outer)
        case Parts(name, choices):
            if not choices:
                raise RecipeError(f"{name}: parts(…) is empty; give it at least (everything, recipe)")
            seats = {_seat(leaf.recipe) for leaf in leaves(recipe)}
            if len(seats) > 1:
                raise RecipeError(
                    f"{name}: your one optimizer would step in {len(seats)} ways, {' and '.join(map(str, seats))}; "
                    "give all parts the same seat"
                )
            for choice in choices:
                _check_shape(choice.recipe)


def _seat(r: Recipe) -> Local | Rule:
    return r.local if r.local.yours else r.center


def _check_handover(name: str, legs: tuple[Phase, ...]) -> None:
    for before, after in pairwise(legs):
        for owing in (leaf.recipe for leaf in leaves(before.recipe) if leaf.recipe.up[0].keeps):
            deaf = [leaf.recipe for leaf in leaves(after.recipe) if leaf.recipe.send != owing.send]
            if deaf:
                raise RecipeError(
                    f"{name}: at step {before.until} {owing.name} still owes {owing.send}, which {deaf[0].name} cannot "
                    f"pay, because it sends {deaf[0].send}; put a phase between them that sends {owing.send} densely"
                )


def _check_seats(r: Recipe) -> None:
    seats = [seat for seat, part in (("local", r.local), ("center", r.center)) if part.yours]
    if len(seats) != 1:
        raise RecipeError(
            f"{r.name}: your optimizer has {len(seats)} seats ({' and '.join(seats) or 'none'}), it needs exactly one: "
            f"local={r.local}, center={r.center}; put yours() into `local` for averaging, into `center` for gradients"
        )
    if r.up[0].momentum and r.center.momentum:
        raise RecipeError(
            f"{r.name}: momentum twice, {r.up[0].momentum} in memory={r.memory} and {r.center.momentum} in "
            f"center={r.center}; keep one of them"
        )


def _check_ways(r: Recipe) -> None:
    for axis, part in (("memory", r.memory), ("codec", r.codec)):
        if isinstance(part, Ways) and r.exchange.pattern not in _TWO_WAY:
            raise RecipeError(
                f"{r.name}: {axis}=ways(…) needs an exchange that goes up and down; {r.exchange} goes one way: give "
                f"one {axis}, or use exchange=owners() or server()"
            )
    if isinstance(r.memory, Ways) and r.exchange.pattern == "server":
        raise RecipeError(
            f"{r.name}: memory={r.memory} has a way down, but a server sends its centre itself and owes nothing; "
            f"write memory={r.up[0]}"
        )


def _check_codecs(r: Recipe) -> None:
    """Each codec is asked only for what it can do."""
    positions = [r.up[1]] if r.send.kind == "position" else []
    positions += [r.codec.down] if isinstance(r.codec, Ways) and r.exchange.pattern == "server" else []
    for codec in positions:
        if codec.combines == "gather":
            raise RecipeError(
                f"{r.name}: codec={codec} keeps only part of what it is given, which is right for steps and wrong for "
                "weights; use send=progress(), or dense() on the way down"
            )
    for _, codec in (r.up, r.down) if r.exchange.pattern in _TWO_WAY else ():
        if codec.init(_PROBE):
            raise RecipeError(
                f"{r.name}: codec={codec} keeps state from step to step, which {r.exchange} has no place for; "
                "use exchange=allreduce()"
            )
    alone = {"owners": [r.down[1]], "server": [r.up[1], r.down[1]]}.get(r.exchange.pattern, [])
    for codec in alone:
        if _asks(codec):
            raise RecipeError(
                f"{r.name}: codec={codec} asks all workers before it encodes, but on this way of {r.exchange} each "
                "encodes something of its own; use a codec that asks nothing, or exchange=gather()"
            )


def _check_payload(r: Recipe) -> None:
    """The exchange carries what the codec writes and brings back what the memory waits for."""
    if r.exchange.pattern == "owners" and not isinstance(r.codec, Ways):
        raise RecipeError(f"{r.name}: {r.exchange} encodes twice; write codec=ways(up={r.codec}, down=…)")
    if r.up[0].listens and r.exchange.pattern == "server":
        raise RecipeError(
            f"{r.name}: memory={r.up[0]} compares with what all workers sent together, which a server does not return; "
            "use residual() against what was sent"
        )
    combines = r.up[1].combines
    if r.exchange.carries and combines not in r.exchange.carries:
        remedy = "exchange=gather()" if combines == "gather" else "exchange=allreduce()"
        raise RecipeError(
            f"{r.name}: payloads of codec={r.up[1]} combine by {combines!r}, which {r.exchange} cannot carry; "
            f"use {remedy}"
        )


def _asks(codec: Codec) -> bool:
    """Whether a codec needs answers from others before it can encode."""
    try:
        next(codec.encode(Bucket.zeros(_PROBE), codec.init(_PROBE), START))
    except StopIteration:
        return False
    return True


def _check_directions(r: Recipe) -> None:
    if r.exchange.pattern != "nobody" and r.send.kind != r.center.accepts:
        remedy = "center=average()" if r.send.kind == "position" else "send=gradient() or progress()"
        raise RecipeError(
            f"{r.name}: send={r.send} is a {r.send.kind}, center={r.center} takes a {r.center.accepts}; use {remedy}"
        )


def _check_clock(r: Recipe) -> None:
    collective = r.exchange.pattern in ("reduce", "gather", "owners", "peers")
    if r.exchange.pattern == "peers" and (r.send.kind != "position" or r.up[0].keeps):
        raise RecipeError(
            f"{r.name}: peers tell each other where they are, and owe nothing; send={r.send} and memory={r.memory} do "
            "not fit: use send=weights() and memory=nothing()"
        )
    if collective and r.send.when == "backward" and not r.center.yours:
        raise RecipeError(
            f"{r.name}: exchanged gradients step your optimizer, but center={r.center}; use center=yours()"
        )
    if collective and not r.schedule.lockstep:
        raise RecipeError(
            f"{r.name}: {r.exchange} needs all workers at once, schedule={r.schedule} lets them run apart; "
            "use exchange=server(), or schedule=every_step() or every(tau)"
        )
    if r.exchange.pattern in ("server", "memory") and r.send.when == "backward" and not r.schedule.due(0).push:
        raise RecipeError(
            f"{r.name}: schedule={r.schedule} does not push every gradient, and nothing moves the worker in between; "
            "use asynchronous(push=1)"
        )
    skipped = [clock for clock in range(_LOCKSTEP_CLOCKS) if not r.schedule.due(clock).push]
    if collective and r.center.yours and skipped:
        raise RecipeError(
            f"{r.name}: your optimizer steps on exchanged gradients, but schedule={r.schedule} exchanges none at step "
            f"{skipped[0]}; use schedule=every_step(), or local=yours() with send=weights() or progress()"
        )


def _check_memory(r: Recipe) -> None:
    """A centre in one memory has nobody who could decode, hold, delay or measure."""
    if r.exchange.pattern != "memory":
        return
    far = 10**6  # a worker that is far ahead, with a contribution that is as old
    view, meta = View(far, {0: far, 1: 0}), Meta(0, far - 1)
    waits = r.schedule.admit(view, meta) is not Verdict.APPLY or not r.schedule.serve(view, meta)
    odd = {"codec": not r.up[1].identity, "memory": r.up[0].keeps, "schedule": waits,
           "center": isinstance(r.center, Measures)}  # fmt: skip
    axis = next((axis for axis, is_odd in odd.items() if is_odd), None)
    if axis is not None:
        raise RecipeError(
            f"{r.name}: {axis}={getattr(r, axis)} needs a server; a centre in one memory is written to by every worker "
            "itself, at once and as it is: use exchange=server()"
        )


def _check_split(r: Recipe) -> None:
    if r.split.stages > 1 and r.exchange.pattern != "nobody":
        raise RecipeError(
            f"{r.name}: split={r.split} gives each worker other layers, so there is nobody to exchange them with; "
            "use exchange=nobody()"
        )
    codec = r.up[1]
    if r.split.stages > 1 and (codec.init(_PROBE) or _asks(codec)):
        raise RecipeError(
            f"{r.name}: codec={codec} asks all workers or learns from them, and a boundary between two stages has only "
            "two; use half(), topk() or another codec that does neither"
        )


def _check_tiers(leaf: Leaf) -> None:
    inner = leaf.inner
    if inner is None:
        return
    if inner.exchange.pattern != "reduce" or not inner.up[1].identity or inner.up[0].keeps:
        raise RecipeError(
            f"{inner.name}: inside a tier only a plain sum is understood, not exchange={inner.exchange}, "
            f"codec={inner.codec}, memory={inner.memory}; use tiers(sync_sgd(), …)"
        )
    if leaf.recipe.exchange.pattern == "memory":
        raise RecipeError(
            f"{leaf.recipe.name}: in {leaf.recipe.exchange} every worker stands for itself, not for a group; use "
            "exchange=server()"
        )
    if leaf.recipe.send.when != "backward":
        raise RecipeError(
            f"{leaf.recipe.name}: tiers add up gradients inside a group, but send={leaf.recipe.send}; "
            "use send=gradient()"
        )
