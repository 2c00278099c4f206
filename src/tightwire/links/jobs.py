"""Jobs in one order, beside the caller: by a thread of their own, or by whoever waits before that thread is there.

    submit ─▶ queue ─▶ the comm thread takes the first
                    └▶ a caller that waits, and finds nobody at work, takes it: two changes of thread less
    submit(first=…)    a caller that finds nobody at work does the job's beginning at once; whoever waits does the rest

Where cores are busy, every change of thread waits for its turn on a core. A job that nobody overlaps with need not pay
for that; nor need one that only waits for messages once it has begun, because they travel by themselves.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tightwire.algebra.errors import PeerTimeout


class Jobs:
    """A queue that one thread at a time works off."""

    def __init__(self) -> None:
        self._queue: deque[_Job] = deque()
        self._at_work = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tightwire-comm")

    def submit(self, work: Callable[[], None], *, first: Callable[[], None] | None = None) -> _Job:
        """Run ``work`` after everything submitted before it; ``first`` comes before it, at once if that can be."""
        job = _Job(self, work, first)
        if first is None or not self._begin(job):
            self._queue.append(job)
            self._pool.submit(self._work_off)
        return job

    def _begin(self, job: _Job) -> bool:
        """Begin a job here, unless somebody is at work or something before it has not begun."""
        if not self._at_work.acquire(blocking=False):
            return False
        try:
            begins = all(before.begun for before in self._queue)
            if begins:
                job.begin()
                self._queue.append(job)
            return begins
        finally:
            self._at_work.release()

    def _work_off(self, until: _Job | None = None) -> None:
        """Take jobs in order, as long as there are some and ``until`` is not done; by one thread at a time."""
        with self._at_work:
            while self._queue and not (until is not None and until.done.is_set()):
                self._queue.popleft().run()

    def help(self, job: _Job) -> None:
        """Do what stands before a job, and the job, unless somebody is at it."""
        if self._at_work.acquire(blocking=False):
            self._at_work.release()
            self._work_off(job)
        elif not job.done.is_set():
            self._pool.submit(self._work_off)  # whoever is at work may have looked before the job came

    def close(self) -> None:
        """What has not begun does not begin."""
        self._queue.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)


@dataclass
class _Job:
    jobs: Jobs
    work: Callable[[], None]
    first: Callable[[], None] | None = None
    begun: bool = False
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None

    def begin(self) -> None:
        self.begun = True
        if self.first is not None:
            self._try(self.first)

    def run(self) -> None:
        if not self.begun:
            self.begin()
        if self.error is None:
            self._try(self.work)
        self.done.set()

    def _try(self, part: Callable[[], None]) -> None:
        try:
            part()
        except BaseException as error:  # carried to whoever waits
            self.error = error

    def wait(self, timeout_s: float) -> None:
        """Wait for the job. Its own waits have timeouts with names; this one only bounds their sum."""
        self.jobs.help(self)
        if not self.done.wait(timeout_s):
            raise PeerTimeout(f"an exchange did not end within {timeout_s:g} s (step_timeout_s)")
        if self.error is not None:
            raise self.error
