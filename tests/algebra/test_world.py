"""Seeds by counting, and groups of workers."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tightwire.algebra.world import At, World, groups_of, host

moments = st.builds(
    lambda step, rank, seed: At(step=step, world=World(rank, rank + 1), seed=seed),
    st.integers(0, 10**9),
    st.integers(0, 4096),
    st.integers(-(2**63), 2**63),
)


@given(moments, st.text(max_size=10))
def test_a_key_is_a_seed_that_torch_takes(at: At, salt: str) -> None:
    for shared in (True, False):
        key = at.key(shared=shared, salt=salt)
        assert 0 <= key < 2**63
        assert torch.Generator().manual_seed(key).initial_seed() == key


@given(moments, st.integers(0, 4096), st.text(max_size=10))
def test_a_shared_key_is_the_same_on_all_ranks(at: At, rank: int, salt: str) -> None:
    other = at.inside(World(rank, 5000))
    assert at.key(shared=True, salt=salt) == other.key(shared=True, salt=salt)


def test_keys_differ_between_steps_ranks_salts_and_seeds() -> None:
    keys = [
        At(step=step, world=World(rank, 8), seed=seed).key(shared=False, salt=salt)
        for step, rank, seed, salt in itertools.product(range(20), range(8), range(3), ("", "q", "noise"))
    ]
    shared = [
        At(step=step, seed=seed).key(shared=True, salt=salt)
        for step, seed, salt in itertools.product(range(20), range(3), ("", "q", "noise"))
    ]
    assert len(set(keys + shared)) == len(keys) + len(shared)


@given(moments, moments)
def test_a_key_depends_on_step_rank_and_seed_alone(one: At, two: At) -> None:
    named = [(at.step, at.world.rank, at.seed % 2**64) for at in (one, two)]
    assert (one.key(shared=False) == two.key(shared=False)) == (named[0] == named[1])


def test_epoch_learning_rate_and_membership_do_not_change_a_key() -> None:
    at = At(step=5, world=World(1, 2), seed=3)
    same = At(step=5, epochs=7, lr=0.5, world=World(1, 9, generation=4, hosts=(0,) * 9), seed=3)
    assert at.key(shared=False, salt="q") == same.key(shared=False, salt="q")


def test_any_rank_can_draw_what_another_one_draws() -> None:
    def drawn(at: At, shared: bool) -> list[float]:
        generator = at.generator(torch.device("cpu"), shared=shared, salt="q")
        return torch.rand(4, generator=generator).tolist()

    here, there = (At(step=2, world=World(rank, 2)) for rank in (0, 1))
    assert drawn(here.inside(World(1, 2)), shared=False) == drawn(there, shared=False)
    assert drawn(here, shared=False) != drawn(there, shared=False)
    assert drawn(here, shared=True) == drawn(there, shared=True)


def test_inside_a_smaller_world_the_moment_is_the_same() -> None:
    at = At(step=2, epochs=1, lr=0.1, world=World(5, 8), seed=9)
    assert at.inside(World(1, 2)) == At(step=2, epochs=1, lr=0.1, world=World(1, 2), seed=9)


def test_by_host_the_ranks_of_a_machine_belong_together() -> None:
    world = World(rank=2, size=4, hosts=(0, 0, 1, 1))
    assert host(world) == (0, 0, 1, 1)
    assert world.members_of(host(world)) == (2, 3)


def test_by_host_ranks_without_machines_are_alone() -> None:
    world = World(rank=2, size=4)
    assert world.members_of(host(world)) == (2,)


@pytest.mark.parametrize(("size", "labels"), [(1, (0, 1, 2, 3, 4)), (2, (0, 0, 1, 1, 2)), (5, (0,) * 5), (9, (0,) * 5)])
def test_consecutive_ranks_form_groups(size: int, labels: tuple[int, ...]) -> None:
    assert groups_of(size)(World(0, 5)) == labels


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_every_rank_is_in_exactly_one_group_and_all_members_agree(labels: list[int]) -> None:
    groups = [World(rank, len(labels)).members_of(tuple(labels)) for rank in range(len(labels))]
    for rank, members in enumerate(groups):
        assert rank in members
        assert list(members) == sorted(members)
        assert all(groups[member] == members for member in members)
