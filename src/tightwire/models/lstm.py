"""A word language model that carries its hidden state from batch to batch.

    logits_t = E·h_t + b,   h_t = LSTM(LSTM(E[word_t])),     dropout before, between and after the layers

Zaremba, Sutskever, Vinyals: Recurrent Neural Network Regularization. arXiv 1409.2329 ("large": 2 layers, 1500 units,
dropout 0.65). One matrix E both reads and writes words: Press, Wolf: Using the Output Embedding to Improve Language
Models. EACL 2017. 51,034,000 parameters with 10,000 words.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tightwire.models.errors import ModelError


class LanguageModel(nn.Module):
    """Tokens [batch, time] to logits [batch, time, words].

    A batch of the same size as the one before goes on where that ended; gradients do not flow back into it. `reset`
    forgets, and so do a batch of another size and a change between training and evaluation. The state is no part of
    ``state_dict``.
    """

    def __init__(self, words: int, *, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
        self.bias = nn.Parameter(torch.zeros(words))
        self.dropout = nn.Dropout(dropout)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self._carried: tuple[Tensor, Tensor] | None = None

    def reset(self) -> None:
        """Forget the text so far."""
        self._carried = None

    def train(self, mode: bool = True) -> LanguageModel:
        """As every module; another mode means another text."""
        if mode != self.training:
            self.reset()
        super().train(mode)
        return self

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next word, after each word."""
        before = self._carried
        if before is not None and (before[0].shape[1] != len(tokens) or before[0].device != tokens.device):
            before = None
        hidden, after = self.lstm(self.dropout(self.embedding(tokens)), before)
        self._carried = (after[0].detach(), after[1].detach())
        return functional.linear(self.dropout(hidden), self.embedding.weight, self.bias)

    def __getstate__(self) -> dict[str, Any]:
        """A copy begins without a past."""
        return {**self.__dict__, "_carried": None}


def lstm_lm(
    inputs: tuple[int, ...], classes: int, *, width: int = 1500, layers: int = 2, dropout: float = 0.65
) -> LanguageModel:
    """The language model for a vocabulary of ``classes`` words; ``inputs`` is the length of a segment, (bptt,)."""
    if len(inputs) != 1:
        raise ModelError(f"lstm-lm takes segments of tokens (length,), not inputs of shape {inputs}; use the data text")
    if width < 1 or layers < 1 or not 0 <= dropout < 1:
        raise ModelError(f"width={width} and layers={layers} must be at least 1, dropout={dropout} from 0 to below 1")
    return LanguageModel(classes, width=width, layers=layers, dropout=dropout)
