"""Recipes as values: what they are when and for which tensors, and how they are told apart."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from functools import partial

import pytest
from torch import Tensor

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.grain import Grain, bucket, tensor
from tightwire.algebra.recipe import (
    AnyRecipe,
    Leaf,
    Recipe,
    changes_at,
    describe,
    everything,
    forever,
    leaves,
    one_dimensional,
    parts,
    phases,
    resolve,
    tiers,
    ways,
)  # fmt: skip
from tightwire.algebra.world import At, World, groups_of, host
from tightwire.codecs.dense import dense
from tightwire.codecs.onebit import onebit
from tightwire.codecs.topk import topk
from tightwire.exchanges.allreduce import ring, tree
from tightwire.exchanges.gather import gather
from tightwire.exchanges.owners import owners
from tightwire.memories.nothing import nothing
from tightwire.memories.residual import residual
from tightwire.recipes import asgd, dgc, local_sgd, one_bit, recipe, sync_sgd
from tightwire.recipes.catalogue import CATALOGUE
from tightwire.recipes.entry import RecipeEntry
from tightwire.rules.add import add
from tightwire.rules.signals import weights
from tightwire.rules.yours import no_local, yours
from tightwire.schedules.clock import every
from tightwire.schedules.ramps import staircase
from tightwire.splits.layerwise import layerwise

SHAPES = {"fc1.weight": (4, 3), "fc1.bias": (4,), "fc2.weight": (2, 4), "fc2.bias": (2,)}
A, B, C = sync_sgd(), sync_sgd(ring()), local_sgd(3)


def test_a_plain_recipe_is_itself_for_all_tensors() -> None:
    assert resolve(A, SHAPES, 0) == [(Leaf(A), tuple(SHAPES))]


def test_a_recipe_for_no_tensors_is_nothing() -> None:
    assert resolve(A, {}, 0) == []
    assert resolve(parts((one_dimensional, A), (everything, B)), {"w": (2, 2)}, 0) == [(Leaf(B), ("w",))]


@pytest.mark.parametrize(("step", "active"), [(0, A), (9, A), (10, B), (19, B), (20, C), (10**9, C)])
def test_a_phase_holds_until_its_step(step: int, active: Recipe) -> None:
    made = phases((10, A), (20, B), (forever, C))
    assert made.active(step) == active
    assert resolve(made, SHAPES, step) == [(Leaf(active), tuple(SHAPES))]


def test_the_first_part_that_matches_decides() -> None:
    made = parts((lambda name, shape: name.startswith("fc1"), A), (one_dimensional, B), (everything, C))
    assert resolve(made, SHAPES, 0) == [
        (Leaf(A), ("fc1.weight", "fc1.bias")),
        (Leaf(B), ("fc2.bias",)),
        (Leaf(C), ("fc2.weight",)),
    ]


def test_a_tensor_that_no_part_matches_is_named() -> None:
    with pytest.raises(RecipeError, match=r"mine: no part matches fc1\.weight, fc2\.weight; end parts.*everything"):
        resolve(parts((one_dimensional, A), name="mine"), SHAPES, 0)


def test_tiers_give_every_leaf_its_inner_recipe_and_grouping() -> None:
    pairs = groups_of(2)
    made = tiers(A, parts((one_dimensional, B), (everything, C)), by=pairs)
    assert resolve(made, SHAPES, 0) == [
        (Leaf(B, A, pairs), ("fc1.bias", "fc2.bias")),
        (Leaf(C, A, pairs), ("fc1.weight", "fc2.weight")),
    ]


def test_tiers_group_by_host_unless_told_otherwise() -> None:
    assert tiers(A, B).by is host


def test_combinators_nest() -> None:
    made = parts((one_dimensional, A), (everything, phases((5, B), (forever, C))))
    assert [leaf.recipe for leaf, _ in resolve(made, SHAPES, 4)] == [A, B]
    assert [leaf.recipe for leaf, _ in resolve(made, SHAPES, 5)] == [A, C]


def test_changes_are_found_in_every_combinator() -> None:
    inside = phases((7, A), (forever, B))
    assert changes_at(A) == set()
    assert changes_at(inside) == {7}
    assert changes_at(phases((3, A), (5, inside), (forever, B))) == {3, 5, 7}
    assert changes_at(tiers(A, inside)) == {7}
    assert changes_at(parts((one_dimensional, inside), (everything, phases((9, A), (forever, B))))) == {7, 9}


def test_leaves_are_all_recipes_that_ever_hold() -> None:
    made = parts((one_dimensional, A), (everything, tiers(A, phases((5, B), (forever, C)), by=host)))
    assert leaves(made) == [Leaf(A), Leaf(B, A, host), Leaf(C, A, host)]


def test_each_way_has_its_part() -> None:
    made = recipe(
        codec=ways(up=topk(0.1), down=onebit()), memory=ways(up=residual(), down=nothing()), exchange=owners()
    )
    assert made.up == (residual(), topk(0.1))
    assert made.down == (nothing(), onebit())
    assert A.up == A.down == (nothing(), dense())


def test_a_recipe_but_for_one_axis_is_otherwise_the_same() -> None:
    changed = A.but(exchange=tree(), name="other")
    assert (changed.exchange, changed.name) == (tree(), "other")
    assert changed.but(exchange=A.exchange, name=A.name) == A


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=list(CATALOGUE))
def test_a_recipe_made_twice_is_described_alike_and_without_addresses(entry: RecipeEntry) -> None:
    one, two = (describe(entry.make()) for _ in range(2))
    assert one == two
    assert not re.search(r"0x[0-9a-f]{4,}", one)


def test_all_recipes_of_the_catalogue_are_described_differently() -> None:
    assert len({describe(entry.make()) for entry in CATALOGUE.values()}) == len(CATALOGUE)


OTHER = {
    "name": "other",
    "local": yours(),
    "send": weights(),
    "memory": residual(),
    "codec": topk(0.25),
    "exchange": tree(),
    "schedule": every(9),
    "center": add(0.125),
    "adopt": object,
    "grain": tensor(),
    "split": layerwise(2),
    "buffers": "local",
}


@pytest.mark.parametrize("axis", [field.name for field in fields(Recipe)])
def test_a_recipe_that_differs_in_one_axis_is_described_differently(axis: str) -> None:
    assert describe(A.but(**{axis: OTHER[axis]})) != describe(A)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (phases((3, A), (forever, B)), phases((4, A), (forever, B))),
        (phases((3, A), (forever, B)), phases((3, B), (forever, A))),
        (parts((one_dimensional, A), (everything, B)), parts((everything, A), (everything, B))),
        (tiers(A, B), tiers(A, A)),
        (dgc(0.01), dgc(0.02)),
        (dgc(staircase(0.25, 0.01)), dgc(staircase(0.25, 0.02))),
        (one_bit(), one_bit(warmup=3)),
        (asgd(), asgd(codec=topk(0.1))),
    ],
)
def test_recipes_that_differ_inside_are_described_differently(one: AnyRecipe, two: AnyRecipe) -> None:
    assert describe(one) != describe(two)


def test_tiers_that_group_differently_are_described_differently() -> None:
    assert groups_of(2)(World(0, 8)) != groups_of(4)(World(0, 8))
    assert describe(tiers(A, B, by=groups_of(2))) != describe(tiers(A, B, by=groups_of(4)))


def test_a_knob_that_is_a_function_is_described_without_its_address() -> None:
    assert "0x" not in describe(recipe(codec=topk(lambda at: 0.5**at.epoch), exchange=gather()))


@pytest.mark.parametrize(
    "make",
    [
        lambda grain: A.but(grain=grain),
        lambda grain: phases((3, A.but(grain=grain)), (forever, B)),
        lambda grain: tiers(A, B.but(grain=grain)),
        lambda grain: parts((everything, A.but(grain=grain))),
    ],
)
def test_recipes_that_differ_in_axes_left_out_are_described_alike(make: Callable[[Grain], AnyRecipe]) -> None:
    fine, coarse = make(tensor()), make(bucket(99.0))
    assert describe(fine) != describe(coarse)
    assert describe(fine, frozenset({"grain"})) == describe(coarse, frozenset({"grain"}))
    assert describe(fine, frozenset({"codec"})) != describe(coarse, frozenset({"codec"}))


class Plain:
    """A part of somebody who does not write dataclasses."""

    looks = "after"
    momentum = "keep"

    def adopt_(self, weight: Tensor, center: Tensor, at: At) -> None:
        weight.copy_(center)


def test_a_part_that_is_no_dataclass_is_described_without_its_address() -> None:
    assert describe(recipe(adopt=Plain())) == describe(recipe(adopt=Plain()))


def test_knobs_with_different_arguments_are_described_differently() -> None:
    one, two = (recipe(codec=topk(partial(staircase(1.0), level)), exchange=gather()) for level in (1, 2))  # type: ignore[arg-type]
    assert describe(one) != describe(two)


def test_the_usual_recipe_has_one_seat_for_your_optimizer() -> None:
    assert (recipe().local, recipe().center) == (no_local(), yours())
