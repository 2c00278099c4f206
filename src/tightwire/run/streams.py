"""A side stream: what a job does on a GPU runs beside the backward pass, not after it."""

from __future__ import annotations

from collections.abc import Callable

import torch


class Side:
    """Runs jobs on a stream of their own; on a CPU, where they are."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def job(self, work: Callable[[], None]) -> Callable[[], None]:
        """``work``, to start when everything queued so far on the current stream is done."""
        if self._stream is None:
            return work
        stream = self._stream
        filled = torch.cuda.current_stream(stream.device).record_event()

        def beside() -> None:
            with torch.cuda.stream(stream):
                stream.wait_event(filled)
                work()

        return beside

    def join(self) -> None:
        """What is queued from now on comes after all jobs."""
        if self._stream is not None:
            torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)
