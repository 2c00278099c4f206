"""Who is in a chain, step by step."""

from __future__ import annotations

from typing import Any

from tightwire.server.chain import Beat, Buried, Go, Lost, Member, View, Where
from tightwire.server.once import Once
from tightwire.server.replica import NOBODY, Replica
from tightwire.server.tally import Tally
from tightwire.server.views import Views

A, B, C = Member("a", 1), Member("b", 1), Member("c", 1)


def beat(views: Views, member: Member, now_s: float, *, caught_up: bool = True) -> list[Any]:
    """A server that knows all it was told."""
    view = views.views["x"]
    stands = member in view.chain and views.final["x"] == view
    told = views.handle(Beat("x", member, view.number, stands, caught_up and member in view.chain), now_s)
    return [message for _, message in told]


def started(*spares: Member, replicas: int = 2) -> Views:
    """View 1 of A alone, with spares that have been heard."""
    views = Views(replicas, patience_s=1.0)
    views.found("x", A, 0.0)
    for spare in spares:
        beat(views, spare, 0.0)
    return views


def chain(views: Views) -> tuple[Member, ...]:
    return views.views["x"].chain


def joined() -> Views:
    """A and B, both with everything; C is spare."""
    views = started(B, C)
    views.tick(0.1)
    for member in (A, B, C):
        beat(views, member, 0.1)
    assert chain(views) == (A, B) and views.final["x"].chain == (A, B)
    beat(views, B, 0.1)
    return views


def test_a_short_chain_gets_a_tail_and_stands_when_its_head_knows() -> None:
    views = started(B)
    assert views.tick(0.1) == [("a", View("x", 2, (A, B))), ("b", View("x", 2, (A, B)))]
    assert beat(views, B, 0.1) == [], "the head has not said that it knows"
    assert beat(views, A, 0.1) == [Go("x", 2), Go("x", 2)]
    assert views.sound["x"] == {A}
    beat(views, B, 0.2)
    assert views.sound["x"] == {A, B}
    assert views.tick(0.2) == [], "long enough"


def test_a_silent_head_is_replaced_by_the_next() -> None:
    views = joined()
    beat(views, B, 2.0)
    views.tick(2.0)
    assert chain(views) == (B,)
    beat(views, B, 2.0)
    assert beat(views, A, 2.0) == [Buried("x", A)], "left out for good"
    beat(views, Member("a", 2), 2.0)
    views.tick(2.1)
    assert chain(views) == (B, Member("a", 2)), "under another life it may come back, as the tail"


def test_who_comes_back_before_the_view_stands_is_taken_back() -> None:
    views = joined()
    beat(views, B, 2.0)
    views.tick(2.0)
    assert chain(views) == (B,)
    beat(views, A, 2.1)
    views.tick(2.1)
    assert chain(views) == (A, B), "B never said that it leads, so nothing happened without A"


def test_the_last_one_that_has_everything_is_never_left_out() -> None:
    views = started(B)
    views.tick(0.1)
    beat(views, A, 0.1)  # B is in the chain and has not caught up
    beat(views, B, 5.0, caught_up=False)
    assert views.tick(5.0) == []
    assert chain(views) == (A, B)


def test_a_restarted_server_is_another_member_at_once() -> None:
    views = joined()
    beat(views, A, 0.2)
    views.handle(Beat("x", Member("b", 2), 0, False, False), 0.2)
    views.tick(0.2)
    assert chain(views)[0] == A and B not in chain(views)


def test_late_words_of_an_earlier_life_change_nothing() -> None:
    views = joined()
    views.handle(Beat("x", Member("c", 2), 0, False, False), 0.2)
    assert beat(views, C, 0.2) == []
    assert C not in views.heard_s["x"]


def test_a_server_that_should_leave_stays_until_another_has_everything() -> None:
    views = joined()
    views.leaving.add("a")
    for member in (A, B, C):
        beat(views, member, 0.2)
    views.tick(0.2)
    assert chain(views) == (A, B, C)
    for member in (A, B):
        beat(views, member, 0.3)
    assert views.tick(0.3) == []
    beat(views, C, 0.3)
    views.tick(0.4)
    assert chain(views) == (B, C)


def test_one_copy_moves_by_becoming_two_for_a_while() -> None:
    views = started(B, replicas=1)
    views.leaving.add("a")
    views.tick(0.1)
    for member in (A, B):
        beat(views, member, 0.1, caught_up=member == A)
    views.tick(0.1)
    assert chain(views) == (A, B), "B has nothing yet"
    beat(views, B, 0.2)
    views.tick(0.2)
    assert chain(views) == (B,)


def test_who_leaves_is_needed_until_a_view_without_it_stands() -> None:
    replica = Replica("x", A, lambda once: once, lambda once: once)
    replica.found(Once(Tally()))
    replica.handle(View("x", 1, (A,)))
    replica.handle(View("x", 2, (B,)))
    assert replica.needed, "B may die before it knows that it leads"
    replica.handle(Buried("x", A))
    assert not replica.needed


def test_a_shard_is_lost_when_the_last_one_that_had_it_was_started_anew() -> None:
    views = started(B, replicas=1)
    views.handle(Beat("x", Member("a", 2), 0, False, False), 0.5)
    views.tick(0.5)
    assert views.handle(Where(7, "x"), 1.0) == [(7, View("x", 1, (A,)))], "perhaps another will say that it has it"
    assert views.handle(Where(7, "x"), 2.0) == [(7, Lost("x"))]


def test_a_server_that_seemed_to_have_ended_and_is_heard_lives() -> None:
    views = started(B, replicas=1)
    views.end("a")
    views.tick(0.5)
    assert views.handle(Where(7, "x"), 2.0) == [(7, Lost("x"))]
    beat(views, A, 2.0)
    views.tick(2.0)
    assert views.handle(Where(7, "x"), 4.0) == [(7, View("x", 1, (A,)))]


def test_while_another_copy_lives_nothing_is_lost() -> None:
    views = joined()
    views.end("a")
    for now_s in (0.5, 2.0):
        beat(views, B, now_s)
        views.tick(now_s)
        assert views.handle(Where(7, "x"), now_s) == [(7, views.views["x"])]
    assert chain(views) == (B,)


def test_after_a_failure_and_a_return_heads_are_spread_again() -> None:
    views = Views(2, patience_s=1.0)
    shards = ("x", "y")

    def live(now_s: float, *members: Member) -> None:
        for shard in shards:
            for member in members:
                view = views.views[shard]
                stands = member in view.chain and views.final[shard] == view
                views.handle(Beat(shard, member, view.number, stands, stands), now_s)

    def heads() -> list[str]:
        return [views.views[shard].chain[0].server for shard in shards]

    views.found("x", A, 0.0)
    views.found("y", B, 0.0)
    for tick in range(1, 5):
        live(0.1 * tick, A, B)
        views.tick(0.1 * tick)
    assert heads() == ["a", "b"]
    for tick in range(5, 20):
        live(0.1 * tick, A)  # b has died
        views.tick(0.1 * tick)
    assert heads() == ["a", "a"]
    for tick in range(20, 30):
        live(0.1 * tick, A, Member("b", 2))
        views.tick(0.1 * tick)
    assert sorted(heads()) == ["a", "b"]
    assert all(len(views.final[shard].chain) == 2 for shard in shards)


def test_workers_are_told_where_the_head_is() -> None:
    views = joined()
    assert views.handle(Where(7, "x"), 0.2) == [(7, View("x", 2, (A, B)))]
    assert views.handle(Where(7, "y"), 0.2) == [(7, NOBODY)]
