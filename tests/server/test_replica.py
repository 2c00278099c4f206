"""A chain of three, message by message."""

from __future__ import annotations

from typing import Any

from tightwire.server.chain import Ack, Beat, Buried, Elsewhere, Forward, Go, Have, Member, Sync, View
from tightwire.server.once import Once, Request, Response
from tightwire.server.replica import Replica
from tightwire.server.tally import Mark, Tallies

A, B, C = Member("a", 1), Member("b", 1), Member("c", 1)
TALLIES = Tallies()


def blank(me: Member) -> Replica:
    return Replica(
        "x",
        me,
        lambda once: (dict(once.sessions), TALLIES.copy(once.machine)),  # type: ignore[arg-type]
        lambda state: Once(TALLIES.revive(state[1]), dict(state[0])),
    )


def told(replica: Replica, *messages: Any) -> list[Any]:
    """What a replica says to these, without what it says to the views."""
    return [effect for message in messages for effect in replica.handle(message) if effect[0] != "views"]


def founder(view: View) -> Replica:
    replica = blank(A)
    replica.found(Once(TALLIES.make()))
    told(replica, view, Go("x", view.number))
    return replica


def request(number: int, worker: int = 0) -> Request:
    return Request(worker, 1, number, Mark(worker, number))


def marks(replica: Replica) -> dict[Mark, int]:
    assert replica.machine is not None
    return dict(replica.machine.machine.marks)  # type: ignore[attr-defined]


def pair() -> tuple[Replica, Replica]:
    """A head and a tail that has caught up."""
    view = View("x", 2, (A, B))
    head, tail = founder(View("x", 1, (A,))), blank(B)
    told(head, view, Go("x", 2))
    ((to, have),) = told(tail, view, Go("x", 2))
    assert (to, have) == ("a", Have(2, -1))
    ((to, sync),) = told(head, have)
    assert to == "b" and sync.place == 0
    assert told(tail, sync) == [("a", Ack(2, 0))]
    return head, tail


def test_alone_a_server_answers_at_once() -> None:
    assert told(founder(View("x", 1, (A,))), request(0)) == [(0, Response(0, 1, 0, 0))]


def test_a_worker_is_answered_when_the_tail_holds_it() -> None:
    head, tail = pair()
    ((to, forward),) = told(head, request(0))
    assert (to, forward) == ("b", Forward(2, 1, request(0))), "nobody is answered yet"
    ((to, ack),) = told(tail, forward)
    assert marks(tail) == {Mark(0, 0): 1}
    assert told(head, ack) == [(0, Response(0, 1, 0, 0))]
    assert head.log == {}


def test_only_the_head_takes_requests() -> None:
    _, tail = pair()
    assert told(tail, request(0)) == [(0, Elsewhere(0, 2))]


def test_entries_out_of_order_wait_and_doubles_are_acknowledged_again() -> None:
    head, tail = pair()
    first, second = (told(head, request(0, worker))[0][1] for worker in (0, 1))
    assert told(tail, second) == []
    assert told(tail, first, second) == [("a", Ack(2, 1)), ("a", Ack(2, 2))]
    assert told(tail, first) == [("a", Ack(2, 2))]
    assert set(marks(tail).values()) == {1}


def test_what_was_lost_is_said_again_at_a_tick() -> None:
    head, _ = pair()
    told(head, request(0))
    assert ("b", Forward(2, 1, request(0))) in head.tick()


def test_the_tail_takes_over_and_the_worker_is_answered_once() -> None:
    head, tail = pair()
    told(tail, told(head, request(0))[0][1])  # the head dies before it hears that
    view = View("x", 3, (B,))
    assert told(tail, view) == [] and told(tail, request(0)) == [(0, Elsewhere(0, 3))], "not before the view stands"
    assert told(tail, Go("x", 3)) == []
    assert told(tail, request(0)) == [(0, Response(0, 1, 0, 0))]
    assert marks(tail) == {Mark(0, 0): 1}


def test_an_old_head_can_do_nothing_in_a_view_that_is_over() -> None:
    head, tail = pair()
    told(tail, View("x", 3, (B,)), Go("x", 3))
    ((_, forward),) = told(head, request(0))
    assert told(tail, forward) == []
    assert told(head, request(0)) == [], "it waits, and nobody is told what may be lost"


def test_when_the_middle_dies_its_neighbours_close_the_gap() -> None:
    view = View("x", 3, (A, B, C))
    head, middle = pair()
    tail = blank(C)
    told(head, view, Go("x", 3))
    told(middle, view, Go("x", 3), *[m for _, m in told(head, Have(3, 0))])
    told(tail, view, Go("x", 3), *[m for _, m in told(middle, Have(3, -1))])
    told(head, request(0))  # the middle dies, and this entry with it
    told(tail, View("x", 4, (A, C)), Go("x", 4))
    told(head, View("x", 4, (A, C)), Go("x", 4))
    ((to, sync),) = told(head, Have(4, tail.index))
    assert (to, sync) == ("c", Sync(4, 0, (request(0),)))
    (acknowledged,) = {message for _, message in told(tail, sync)}
    assert told(head, acknowledged) == [(0, Response(0, 1, 0, 0))]
    assert marks(tail) == {Mark(0, 0): 1}


def test_a_state_that_comes_late_sets_nobody_back() -> None:
    head, tail = pair()
    head.rest = 0
    ((_, old),) = told(head, Have(2, -1))
    told(tail, told(head, request(0))[0][1], View("x", 3, (A, B)), Go("x", 3))
    told(tail, old._replace(view=3))
    assert tail.index == 1 and marks(tail) == {Mark(0, 0): 1}


def swapped() -> tuple[Replica, Replica]:
    """The tail leads from now on; the old head has an entry that the tail never saw."""
    old, new = pair()
    told(old, request(0))
    view = View("x", 3, (B, A))
    assert told(new, view, Go("x", 3)) == []
    assert told(old, view, Go("x", 3)) == [("b", Have(3, -1))], "it asks for everything, and says nothing of its own"
    return old, new


def test_who_is_overtaken_takes_the_new_heads_state() -> None:
    old, new = swapped()
    ((_, forward),) = told(new, request(0, worker=1))  # another entry at the same place
    assert told(old, forward) == [], "it cannot follow what it has"
    ((to, sync),) = told(new, Have(3, -1))
    assert to == "a" and told(old, sync) == [("b", Ack(3, 1))]
    assert marks(old) == marks(new) == {Mark(1, 0): 1}
    assert told(new, Ack(3, 1)) == [(1, Response(1, 1, 0, 0))]


def test_who_is_overtaken_forgets_nothing_before_it_has_something_better() -> None:
    old, _ = swapped()
    assert [to for to, _ in old.tick()] == ["views", "b"]
    told(old, View("x", 4, (A,)), Go("x", 4))  # the new head died at once
    assert told(old, request(0)) == [(0, Response(0, 1, 0, 0))], "it leads with all it has"
    assert marks(old) == {Mark(0, 0): 1}


def test_who_is_overtaken_stays_so_through_other_views() -> None:
    old, new = swapped()
    for replica in (new, old):
        told(replica, View("x", 4, (B, A, C)), Go("x", 4))
    assert told(old, Have(4, -1)) == [], "a new tail is not given what is not true any more"
    ((_, sync),) = [said for said in told(new, Have(4, -1)) if said[0] == "a"]
    told(old, sync)
    assert told(old, Have(4, -1))[0][0] == "c" and marks(old) == {}


def test_who_is_left_out_forgets_and_offers_itself_anew() -> None:
    _, tail = pair()
    told(tail, View("x", 3, (A,)), Buried("x", B))
    assert tail.machine is None
    assert tail.tick() == [("views", Beat("x", Member("b", 2), 3, False, False))]
