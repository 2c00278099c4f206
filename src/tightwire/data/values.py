"""What a reader returns: a data set, ready to train on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor
    from torch.utils.data import Dataset

Task: TypeAlias = Literal["classify", "language"]


@dataclass(frozen=True, eq=False)
class Data:
    """Training and test set, held in memory, inputs normalised.

    A sample is (input, label); for the task ``language`` it is (tokens, the tokens that follow), and a loader must go
    through the samples in order, ``columns`` at a time, for a model to carry its hidden state along.

    ``inputs``   shape of one input
    ``classes``  how many classes, or words of the vocabulary
    ``valid``    a validation set, where the files have one
    ``names``    of the classes, or the words, where known
    """

    name: str
    train: Dataset[tuple[Tensor, Tensor]]
    test: Dataset[tuple[Tensor, Tensor]]
    inputs: tuple[int, ...]
    classes: int
    task: Task = "classify"
    valid: Dataset[tuple[Tensor, Tensor]] | None = None
    columns: int | None = None
    names: tuple[str, ...] = ()
