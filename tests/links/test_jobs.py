"""Jobs run once, in order, one at a time: by a thread of their own, or by whoever waits; some begin here."""

from __future__ import annotations

import threading
import time

import pytest

from tightwire.algebra.errors import PeerTimeout
from tightwire.links.jobs import Jobs


def test_jobs_run_in_order_whoever_waits_first() -> None:
    jobs, done = Jobs(), list[int]()
    pending = [jobs.submit(lambda n=n: done.append(n)) for n in range(50)]  # type: ignore[misc]
    for job in (pending[49], pending[0], pending[20]):
        job.wait(5)
    assert done == list(range(50))
    jobs.close()


def test_who_waits_does_what_nobody_has_begun() -> None:
    jobs, threads, go = Jobs(), list[threading.Thread](), threading.Event()
    jobs._pool.submit(go.wait, 5)  # the comm thread does not come to it
    job = jobs.submit(lambda: threads.append(threading.current_thread()))
    job.wait(2)
    assert threads == [threading.current_thread()]
    go.set()
    jobs.close()


def test_two_never_work_at_once() -> None:
    jobs, inside, most = Jobs(), [0], [0]

    def work() -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.002)
        inside[0] -= 1

    pending = [jobs.submit(work) for _ in range(10)]
    waiters = [threading.Thread(target=job.wait, args=(5,)) for job in pending]
    for waiter in waiters:
        waiter.start()
    for waiter in waiters:
        waiter.join()
    assert most == [1]
    jobs.close()


def test_an_error_reaches_who_waits_and_the_next_job_runs() -> None:
    jobs = Jobs()
    broken, fine = jobs.submit(lambda: {}["no such key"]), jobs.submit(lambda: None)
    with pytest.raises(KeyError):
        broken.wait(5)
    fine.wait(5)
    jobs.close()


def test_a_wait_is_over_in_time_if_somebody_else_is_stuck_at_it() -> None:
    jobs, go = Jobs(), threading.Event()
    stuck = jobs.submit(lambda: bool(go.wait(5)))  # type: ignore[arg-type, return-value]
    time.sleep(0.05)  # the comm thread takes it
    with pytest.raises(PeerTimeout, match="step_timeout_s"):
        stuck.wait(0.05)
    go.set()
    jobs.close()


def test_what_comes_first_is_done_by_the_caller_and_the_rest_by_who_waits() -> None:
    jobs, said = Jobs(), list[tuple[str, threading.Thread]]()

    def say(what: str) -> None:
        said.append((what, threading.current_thread()))

    pending = [jobs.submit(lambda n=n: say(f"end {n}"), first=lambda n=n: say(f"begin {n}")) for n in range(3)]  # type: ignore[misc]
    time.sleep(0.02)  # nobody was woken
    me = threading.current_thread()
    assert said == [(f"begin {n}", me) for n in range(3)]
    pending[1].wait(2)
    assert said[3:] == [("end 0", me), ("end 1", me)]
    plain = jobs.submit(lambda: say("plain"))
    plain.wait(2)
    assert [what for what, _ in said[5:]] == ["end 2", "plain"]
    jobs.close()


def test_nothing_begins_before_what_was_submitted_before_it_has_begun() -> None:
    jobs, said, go = Jobs(), list[str](), threading.Event()
    jobs._pool.submit(go.wait, 5)  # the comm thread does not come to it
    plain = jobs.submit(lambda: said.append("plain"))
    job = jobs.submit(lambda: said.append("end"), first=lambda: said.append("begin"))
    assert not said
    job.wait(2)
    plain.wait(2)
    assert said == ["plain", "begin", "end"]
    go.set()
    jobs.close()


def test_an_error_of_the_beginning_reaches_who_waits_and_there_is_no_rest() -> None:
    jobs, done = Jobs(), list[int]()
    broken = jobs.submit(lambda: done.append(1), first=lambda: {}["no such key"])
    with pytest.raises(KeyError):
        broken.wait(5)
    assert not done
    jobs.close()


def test_what_began_here_is_done_even_where_the_one_at_work_had_just_looked() -> None:
    jobs, done = Jobs(), list[int]()
    job = jobs.submit(lambda: done.append(1), first=lambda: done.append(0))
    jobs._at_work.acquire()  # somebody who has seen an empty queue, and has not left yet
    threading.Timer(0.05, jobs._at_work.release).start()
    job.wait(5)
    assert done == [0, 1]
    jobs.close()
