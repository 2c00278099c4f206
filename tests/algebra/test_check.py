"""Every refusal, once: it names the values that clash and what to do instead."""

from __future__ import annotations

import ast
import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from tightwire.algebra import check as module
from tightwire.algebra.check import check
from tightwire.algebra.errors import RecipeError, TightwireError
from tightwire.algebra.recipe import everything, forever, one_dimensional, parts, phases, tiers, ways
from tightwire.codecs.dense import dense
from tightwire.codecs.lowrank import lowrank
from tightwire.codecs.onebit import onebit
from tightwire.codecs.terngrad import terngrad
from tightwire.codecs.topk import topk
from tightwire.exchanges.allreduce import ring
from tightwire.exchanges.gather import gather
from tightwire.exchanges.neighbors import neighbors
from tightwire.exchanges.nobody import nobody
from tightwire.exchanges.owners import owners
from tightwire.exchanges.server import server
from tightwire.exchanges.shared import shared_center
from tightwire.memories.momentum import momentum_correction
from tightwire.memories.nothing import nothing
from tightwire.memories.residual import residual
from tightwire.recipes import dgc, lars, local_sgd, post_local_sgd, powersgd, recipe, sync_sgd
from tightwire.recipes.catalogue import CATALOGUE
from tightwire.recipes.entry import RecipeEntry
from tightwire.rules.add import add
from tightwire.rules.average import average
from tightwire.rules.signals import progress, weights
from tightwire.rules.yours import Yours, yours
from tightwire.schedules.bounded import ssp
from tightwire.schedules.clock import asynchronous, every
from tightwire.splits.layerwise import layerwise

A = sync_sgd()


class Heavy(Yours):
    """A seat that has momentum of its own."""

    momentum: ClassVar[float] = 0.7


REFUSALS: dict[str, tuple[Callable[[], object], tuple[str, ...]]] = {
    "no phases": (lambda: check(phases(name="p")), ("p: phases end at steps []", "`forever`")),
    "phases that end": (lambda: check(phases((5, A))), ("[5]", "the last one must be `forever`")),
    "phases that go back": (lambda: check(phases((5, A), (3, A), (forever, A))), ("[5, 3,", "grow")),
    "a phase of no steps": (lambda: check(phases((0, A), (forever, A))), ("[0,", "positive")),
    "bad phases inside parts": (lambda: check(parts((everything, phases((5, A))))), ("[5]", "`forever`")),
    "bad phases inside tiers": (lambda: check(tiers(A, phases((5, A)))), ("[5]", "`forever`")),
    "bad phases inside phases": (lambda: check(phases((forever, phases((5, A))))), ("[5]", "`forever`")),
    "a debt nobody takes over": (
        lambda: post_local_sgd(100, first=dgc()),
        ("at step 100 dgc still owes Gradient()", "local-sgd", "sends Weights()", "put a phase between them"),
    ),
    "a debt of progress that gradients cannot pay": (
        lambda: check(phases((9, local_sgd(send="progress", memory=residual())), (forever, A))),
        ("at step 9 local-sgd still owes FromCenter()", "sync-sgd", "sends Gradient()", "put a phase between them"),
    ),
    "tiers inside tiers": (lambda: check(tiers(A, tiers(A, A), name="t")), ("t: tiers inside tiers", "one `by`")),
    "no parts": (lambda: check(parts(name="x")), ("x: parts(…) is empty", "(everything, recipe)")),
    "no seat": (lambda: recipe("r", center=add()), ("r: your optimizer has 0 seats (none)", "Add(", "put yours()")),
    "two seats": (lambda: recipe(local=yours()), ("2 seats (local and center)", "put yours() into `local`")),
    "two momenta": (
        lambda: recipe(memory=momentum_correction(0.8), center=Heavy()),
        ("momentum twice, 0.8 in memory=MomentumCorrection(", "0.7 in center=", "keep one"),
    ),
    "a codec for each of one way": (
        lambda: recipe(codec=ways(up=onebit(), down=onebit()), exchange=gather()),
        ("codec=ways(…)", "Gather(", "give one codec, or use exchange=owners()"),
    ),
    "a memory for each of one way": (
        lambda: recipe(memory=ways(up=residual(), down=residual()), exchange=ring()),
        ("memory=ways(…)", "AllReduce(", "give one memory, or use exchange=owners()"),
    ),
    "a memory for the way down from a server": (
        lambda: recipe(memory=ways(up=residual(), down=nothing()), exchange=server(), schedule=asynchronous()),
        ("memory=Ways(", "a server sends its centre itself", "write memory=Residual("),
    ),
    "a codec with state at the owners": (
        lambda: recipe(codec=ways(up=onebit(), down=lowrank(2)), exchange=owners()),
        ("LowRank(rank=2", "keeps state", "Owners(", "use exchange=allreduce()"),
    ),
    "a codec with state at a server": (
        lambda: recipe(codec=lowrank(3), exchange=server(), schedule=asynchronous()),
        ("LowRank(rank=3", "keeps state", "Server(", "use exchange=allreduce()"),
    ),
    "owners that do not encode again": (
        lambda: recipe(codec=onebit(), exchange=owners()),
        ("Owners(", "encodes twice", "write codec=ways(up=OneBit("),
    ),
    "a server that everybody listens to": (
        lambda: recipe(memory=residual("received"), exchange=server(), schedule=asynchronous()),
        ("against='received'", "a server does not return", "use residual()"),
    ),
    "payloads that do not add": (
        lambda: recipe(codec=topk(0.01), exchange=ring()),
        ("TopK(density=0.01", "'gather'", "AllReduce(", "use exchange=gather()"),
    ),
    "payloads that would not be added": (
        lambda: recipe(codec=lowrank(1), exchange=gather()),
        ("LowRank(", "'sum'", "Gather(", "use exchange=allreduce()"),
    ),
    "a position for a centre that takes directions": (
        lambda: recipe(local=yours(), send=weights(), center=add()),
        ("Weights(", "a position", "Add(", "a direction", "use center=average()"),
    ),
    "a direction for a centre that takes positions": (
        lambda: recipe(local=yours(), send=progress(), center=average()),
        ("FromCenter(", "a direction", "Average(", "a position", "use send=gradient() or progress()"),
    ),
    "gradients for another optimizer": (
        lambda: recipe(local=yours(), center=add()),
        ("exchanged gradients step your optimizer", "Add(", "use center=yours()"),
    ),
    "a collective of workers that run apart": (
        lambda: recipe(exchange=ring(), schedule=asynchronous(push=1)),
        ("AllReduce(", "needs all workers at once", "Asynchronous(", "use exchange=server()"),
    ),
    "gradients that are not pushed": (
        lambda: recipe(exchange=server(), schedule=asynchronous(push=2)),
        ("Asynchronous(push=2", "does not push every gradient", "use asynchronous(push=1)"),
    ),
    "gradients that are not exchanged": (
        lambda: recipe(schedule=every(3)),
        ("Every(tau=3", "exchanges none at step 0", "use schedule=every_step()"),
    ),
    "stages that exchange": (
        lambda: recipe(split=layerwise(2)),
        ("Layerwise(stages=2", "nobody to exchange them with", "use exchange=nobody()"),
    ),
    "a boundary that asks everybody": (
        lambda: recipe(local=yours(), exchange=nobody(), center=average(), split=layerwise(2), codec=lowrank(2)),
        ("LowRank(rank=2", "a boundary between two stages has only two", "use half(), topk()"),
    ),
    "two seats for one optimizer": (
        lambda: check(parts((one_dimensional, sync_sgd()), (everything, lars()))),
        ("parts: your one optimizer would step in 2 ways", "Lars(trust=0.001", "Yours(scale=1.0)", "the same seat"),
    ),
    "peers that send steps": (
        lambda: recipe("p", local=yours(), send=progress(), exchange=neighbors("pull"), center=add()),
        ("p: peers tell each other where they are", "FromCenter()", "use send=weights()"),
    ),
    "weights by a codec for steps": (
        lambda: recipe("w", local=yours(), send=weights(), codec=topk(0.1), exchange=gather(), center=average()),
        ("w: codec=TopK(density=0.1, values='float32', gaps='16bit')", "wrong for weights", "send=progress()"),
    ),
    "a centre by a codec for steps": (
        lambda: recipe("s", codec=ways(up=topk(0.5), down=topk(0.1)), exchange=server(), schedule=asynchronous()),
        ("s: codec=TopK(density=0.1, values='float32', gaps='16bit')", "dense() on the way down"),
    ),
    "a question where everybody encodes something else": (
        lambda: recipe("t", codec=ways(up=terngrad(), down=terngrad()), exchange=owners()),
        ("t: codec=TernGrad(clip=2.5, scaler='shared') asks all workers", "a codec that asks nothing"),
    ),
    "a tier that gathers": (
        lambda: check(tiers(recipe("in", codec=onebit(), exchange=gather()), A)),
        ("in: inside a tier", "Gather(", "use tiers(sync_sgd(), …)"),
    ),
    "a tier that compresses": (
        lambda: check(tiers(powersgd(), A)),  # type: ignore[arg-type]
        ("powersgd: inside a tier", "LowRank(", "use tiers(sync_sgd(), …)"),
    ),
    "a tier that remembers": (
        lambda: check(tiers(recipe("in", memory=residual(), exchange=ring()), A)),
        ("in: inside a tier", "Residual(", "use tiers(sync_sgd(), …)"),
    ),
    "a codec in one memory": (
        lambda: recipe("m", codec=topk(0.5), exchange=shared_center(), schedule=asynchronous()),
        ("m: codec=TopK(", "needs a server", "use exchange=server()"),
    ),
    "a schedule that waits in one memory": (
        lambda: recipe("m", exchange=shared_center(), schedule=ssp(2)),
        ("m: schedule=", "needs a server", "use exchange=server()"),
    ),
    "tiers in one memory": (
        lambda: check(tiers(A, recipe("m", exchange=shared_center(), schedule=asynchronous()))),
        ("m: in SharedCenter(", "not for a group", "use exchange=server()"),
    ),
    "tiers that average": (
        lambda: check(tiers(A, local_sgd())),
        ("local-sgd: tiers add up gradients", "Weights(", "use send=gradient()"),
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_names_the_values_and_a_remedy(case: str) -> None:
    make, fragments = REFUSALS[case]
    with pytest.raises(RecipeError) as refused:
        make()
    text = str(refused.value)
    assert [fragment for fragment in fragments if fragment not in text] == [], text


def test_every_refusal_is_triggered_above() -> None:
    source = Path(inspect.getsourcefile(module) or "")
    raises = {node.lineno for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Raise)}
    reached = set()
    for make, _ in REFUSALS.values():
        with pytest.raises(RecipeError) as refused:
            make()
        last = traceback.extract_tb(refused.value.__traceback__)[-1]
        assert last.filename == str(source)
        reached.add(last.lineno)
    assert reached == raises


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=list(CATALOGUE))
def test_recipes_of_the_catalogue_are_accepted_and_returned(entry: RecipeEntry) -> None:
    made = entry.make()
    assert check(made) is made


@pytest.mark.parametrize(
    "make",
    [
        lambda: phases((10, dgc()), (forever, A)),
        lambda: phases((10, dgc()), (20, A), (forever, local_sgd())),
        lambda: tiers(A, dgc()),
        lambda: tiers(A, phases((5, A), (forever, dgc()))),
        lambda: local_sgd(3, send="progress", codec=topk(0.1), memory=residual(), exchange=gather()),
        lambda: recipe(codec=ways(up=dense(), down=dense()), memory=nothing(), exchange=owners()),
        lambda: recipe(codec=topk(0.1), memory=momentum_correction(), exchange=server(), schedule=asynchronous()),
        lambda: recipe(exchange=server(), schedule=asynchronous(fetch=3)),
    ],
)
def test_parts_that_fit_together_are_accepted(make: Callable[[], object]) -> None:
    made = make()
    assert check(made) is made  # type: ignore[arg-type]


def test_a_refusal_is_one_of_ours_and_a_value_error() -> None:
    assert issubclass(RecipeError, TightwireError)
    assert issubclass(RecipeError, ValueError)
