"""Several questions at a time, each on a stream of its own: a worker whose shards are at several servers waits for the
slowest, not for one after another.

    shard 0 ──ask───────reply                 started as its event is ready, while the next one is still being made
    shard 1    ──ask──────────────reply
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Question = Callable[[], Any]


class _Asked:
    """A question in a thread of its own."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._reply: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)  # a server that hangs keeps nobody from ending
        self._thread.start()

    def reply(self) -> Any:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._reply

    def _run(self) -> None:
        try:
            self._reply = self._question()
        except BaseException as error:  # raised again where the reply is waited for
            self._error = error


def abreast(questions: Iterable[Question], afar: Sequence[bool]) -> list[Question]:
    """Ask those that go ``afar`` as they come, all others when their reply is wanted: by calling what is returned.

    Alone, one that goes afar is not worth a thread.

    >>> [reply() for reply in abreast([lambda: 1, lambda: 2], [True, True])]
    [1, 2]
    """
    several = sum(afar) > 1
    return [_Asked(ask).reply if several and apart else ask for ask, apart in zip(questions, afar, strict=True)]
