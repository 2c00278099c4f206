"""Loss and bytes as TensorBoard scalars, for people who already watch their runs there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tightwire.algebra.errors import UsageError
from tightwire.telemetry.event import Event, Stepped


class TensorBoard:
    """Writes into a folder that `tensorboard --logdir` shows; the writer is opened with the first step."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None

    def take(self, event: Event) -> None:
        """Write the scalars of a step; other events have none."""
        if not isinstance(event, Stepped):
            return
        if self._writer is None:
            self._writer = _open(self._folder)
        if event.loss is not None:
            self._writer.add_scalar("loss", event.loss, event.step)
        self._writer.add_scalar("wire/tx_bytes", event.tx_bytes, event.step)
        self._writer.add_scalar("wire/rx_bytes", event.rx_bytes, event.step)

    def close(self) -> None:
        """Write what is still buffered."""
        if self._writer is not None:
            self._writer.close()


def _open(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 -- an optional extra
    except ImportError:
        raise UsageError(
            "TensorBoard is not installed; pip install 'tightwire[tensorboard]', or leave out --tensorboard"
        ) from None
    return SummaryWriter(str(folder))
