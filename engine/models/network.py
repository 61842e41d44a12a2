"""The interface of networks of every family. Knows neither sampling nor files."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from engine.config import ModelConfig
from engine.errors import SafelightError
from engine.layers.kv_cache import KVCache
from engine.layers.norm import RMSNorm


class Network(nn.Module, ABC):
    """A network that reads text causally; ``embed_tokens``, ``layers`` and ``norm`` are among its modules."""

    config: ModelConfig
    norm: RMSNorm
    threads_in_c: int = 0  # the most that a pass in C takes; 0: torch's number

    @property
    def norm_weight(self) -> Tensor:
        """A weight that is never packed."""
        return self.norm.gain

    @property
    def device(self) -> torch.device:
        return self.norm_weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.norm_weight.dtype

    @abstractmethod
    def new_cache(self) -> KVCache:
        """Returns an empty cache for one sequence."""

    @abstractmethod
    def prefill(self, ids: Tensor, cache: KVCache) -> Tensor:
        """Appends token ids (T,), T >= 1, to the cache; returns hidden states after the final norm, (T, H).

        This is causal. In a cache of blocks, of which T are whole ones, each token attends to all of its block.

        Raises:
            SafelightError: the sequence would outgrow ``max_position_embeddings``, or an id is outside the vocabulary.
        """

    @abstractmethod
    def decode(
        self,
        ids: Tensor,
        cache: KVCache,
        commit: int,
        first_logits: int = 0,
        positions: Tensor | None = None,
        is_causal: bool = True,
    ) -> Tensor:
        """Reads tokens after the cache's text, of which the first ones become part of it, and predicts.

        Args:
            ids: token ids (T,), T >= 1.
            commit: how many rows, from the first, are appended to the cache, 0 to T.
            first_logits: the first row whose logits are returned.
            positions: (T,) each row's place in the text, for the rotation; None: consecutive after the cache's text.
                Attention follows the order of the rows, not the positions.
            is_causal: whether a row sees the cache and the rows up to itself; else it sees all rows.

        Returns:
            Logits (T - first_logits, V) in fp32.

        Raises:
            SafelightError: as ``prefill``; this network has only one of the two, or no positions.
        """

    def runs_in_c(self, rows: int) -> bool:  # noqa: ARG002
        """Returns True if ``decode`` of so many rows, at least one, is one call of C for all layers."""
        return False

    def checked_text(self, ids: Tensor, cache: KVCache) -> Tensor:
        """Returns token ids (T,) on the device, which can be appended to a cache.

        Raises:
            SafelightError: as ``prefill``.
        """
        ids, most = self.checked(ids), self.config.max_position_embeddings
        if cache.length + ids.shape[0] > most:
            raise SafelightError(
                f"the text is {cache.length + ids.shape[0]} tokens long; this model has {most} positions. Shorten it"
            )
        return ids

    def checked(self, ids: Tensor) -> Tensor:
        """Returns token ids (T,) on the device.

        Raises:
            SafelightError: there are none, or one is outside the vocabulary.
        """
        if ids.dim() != 1 or ids.numel() == 0:
            raise SafelightError(f"expected a non-empty row of token ids, got shape {tuple(ids.shape)}")
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= self.config.vocab_size:
            outside = low if low < 0 else high
            raise SafelightError(f"token id {outside} is outside the vocabulary of {self.config.vocab_size} tokens")
        return ids.to(self.device, torch.long)
