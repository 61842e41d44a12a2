"""The token table: input embedding, output head and soft embedding share one weight."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LOGITS_AT_ONCE = 1 << 23  # numbers that a decoder with masks works on at once: 34 MB in fp32, a block of 32 or more
TOP_PIECE = 65_536  # tokens of the vocabulary whose logits are held at once to find the top k


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
