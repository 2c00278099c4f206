"""Payloads that must be refused, where only a device can tell: it is asked once for all of them, not once for each.

    with asked_at_the_end():
        decode_(out, first)     what a GPU would have to say of it waits
        decode_(out, second)    and of this
                                now one question: is anything wrong?

Every answer of a GPU is waited for until all work before it is done. A CPU knows at once; and outside of
`asked_at_the_end` everybody is asked at once, so that ``out`` is as it was after a refusal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from tightwire.algebra.errors import PayloadError

DEVICES = {"cuda"}  # whose answers are waited for
_waiting: ContextVar[list[tuple[Tensor, str]] | None] = ContextVar("tightwire_doubts", default=None)


def refuse_if(wrong: Tensor, text: str) -> None:
    """Raise `PayloadError` if ``wrong`` holds, now or when all are asked; till then nothing may depend on it.

    >>> refuse_if(torch.tensor(True), "a payload that is none")
    Traceback (most recent call last):
    tightwire.algebra.errors.PayloadError: a payload that is none
    """
    waiting = _waiting.get()
    if waiting is not None and wrong.device.type in DEVICES:
        waiting.append((wrong, text))
    elif bool(wrong):
        raise PayloadError(text)


@contextmanager
def asked_at_the_end() -> Iterator[None]:
    """Inside, doubts of a device wait; at the end the first that holds is raised."""
    waiting: list[tuple[Tensor, str]] = []
    before = _waiting.set(waiting)
    try:
        yield
    finally:
        _waiting.reset(before)
    if waiting:
        answers = torch.stack([wrong for wrong, _ in waiting]).tolist()
        for (_, text), wrong in zip(waiting, answers, strict=True):
            if wrong:
                raise PayloadError(text)
