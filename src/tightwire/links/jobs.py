"""Jobs in one order, beside the caller: by a thread of their own, or by whoever waits before that thread is there.

    submit ─▶ queue ─▶ the comm thread takes the first
                    └▶ a caller that waits, and finds nobody at work, takes it: two changes of thread less

Where cores are busy, every change of thread waits for its turn on a core. A job that nobody overlaps with need not pay
for that.
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

    def submit(self, work: Callable[[], None]) -> _Job:
        """Run ``work`` after everything submitted before it."""
        job = _Job(self, work)
        self._queue.append(job)
        self._pool.submit(self._work_off)
        return job

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

    def close(self) -> None:
        """What has not begun does not begin."""
        self._queue.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)


@dataclass
class _Job:
    jobs: Jobs
    work: Callable[[], None]
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # carried to whoever waits
            self.error = error
        finally:
            self.done.set()

    def wait(self, timeout_s: float) -> None:
        """Wait for the job. Its own waits have timeouts with names; this one only bounds their sum."""
        self.jobs.help(self)
        if not self.done.wait(timeout_s):
            raise PeerTimeout(f"an exchange did not end within {timeout_s:g} s (step_timeout_s)")
        if self.error is not None:
            raise self.error
