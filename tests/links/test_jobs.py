"""Jobs run once, in order, one at a time: by their own thread, or by whoever waits."""

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
