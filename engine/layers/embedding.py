"""The token table: input embedding, output head and soft embedding share one weight."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LOGITS_AT_ONCE = 1 << 23  # numbers that a decoder with masks works on at once: 34 MB in fp32, a block of 32 or more
TOP_PIECE = 65_536  # tokens of the vocabulary whose logits are held at once to find the top k


class Likeliest(NamedTuple):
    """The K likeliest tokens of each place, in place of its logits of the whole vocabulary."""

    ids: Tensor  # (C, K)
    logits: Tensor  # (C, K)

    @staticmethod
    def of_logits(logits: Tensor, count: int) -> Likeliest:
        """Returns those of logits (C, V)."""
        found = logits.topk(min(count, logits.shape[-1]), dim=-1)
        return Likeliest(found.indices, found.values)

    def spread(self, size: int) -> Tensor:
        """Returns logits (C, V) of ``size`` tokens, -inf for all others."""
        empty = self.logits.new_full((len(self.ids), size), -torch.inf)
        return empty.scatter_(-1, self.ids, self.logits)


class Moved(NamedTuple):
    """The predictions of a canvas, for one that begins ``by`` places later; its last places have none."""

    predicted: Tensor | Likeliest
    by: int


Predicted: TypeAlias = Tensor | Likeliest | Moved
"""What a step feeds back: logits (C, V), or the likeliest tokens; of the same canvas, or of the one before."""


class TokenTable(nn.Embedding):
    """A weight (V, H), unscaled and uninitialised; ``forward`` looks up ids (...) -> (..., H)."""

    def __init__(self, vocab_size: int, hidden_size: int) -> None:
        # Initialising it on the meta device would import torch's compiler, which takes seconds.
        super().__init__(vocab_size, hidden_size, _weight=torch.empty(vocab_size, hidden_size))

    @property
    def table(self) -> Tensor:
        return self.weight

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns the logits (..., V) of hidden states (..., H)."""
        return F.linear(hidden, self.weight)

    def expectation(self, probabilities: Tensor) -> Tensor:
        """Returns the mean row (..., H) under probabilities (..., V)."""
        return torch.matmul(probabilities.to(self.weight.dtype), self.weight)
