"""Commits the beginning of a canvas early, so that a long text does not wait for its slowest token.

The *head* of a canvas is its longest beginning whose guesses have not changed for ``head_steps`` steps. Once it is long
enough it is read causally, by the same weights. Its tokens up to the first with a causal probability under
``head_probability`` become text. The rest of the canvas goes on as the beginning of the next one, with what was fed
back there, and noise behind it. If the head has an end token, the text ends there.

The idea is that of longest stable prefixes (arXiv 2603.05454), for models that write over masks. Here a token is read
causally, too, as it is in a rescue: a place that does not change may only follow from others that do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from engine.config import GenerationConfig
from engine.decoding.prefill import CausalReader, commit
from engine.decoding.protocols import Passes
from engine.layers.kv_cache import KVCache
from engine.types import Tokens

PART = 4  # a head has at least this part of the canvas: each costs a pass


class HeadReader:
    """Finds the head of one canvas, and reads it into the cache.

    Args:
        cache: holds the text before the canvas, at least a token.
        newest: the last token of that.
        room: the most tokens of a head; then the next canvas fits behind it.
        refused: tokens that the canvas may begin with, of which the last is unlikely behind the others.

    Attributes:
        refused: as above, of the places behind the head once there is one.
    """

    def __init__(self, cache: KVCache, newest: int, room: int, refused: Sequence[int] = ()) -> None:
        self._cache, self._newest, self._room = cache, newest, room
        self.refused = list(refused)

    def read(self, argmax: Tokens, unchanged: NDArray[np.int32], config: GenerationConfig) -> Passes[int | None]:
        """Reads the head of a canvas (C,), if it has one that may become text.

        Args:
            argmax: the guesses of the latest step.
            unchanged: for how many steps before that each of them was the same.

        Returns:
            How many tokens of the canvas became text, which the cache holds now; None if none was read.
        """
        cache, start, least = self._cache, self._cache.length, max(1, len(argmax) // PART)
        head = good_prefix(argmax, unchanged >= config.head_steps, config.eos_token_ids)
        has_end = head > 0 and int(argmax[head - 1]) in config.eos_token_ids
        ids = argmax[: head if has_end else min(head, self._room)].tolist()
        if len(ids) < least and not has_end:
            return None
        if self.refused and ids[: len(self.refused)] == self.refused:
            return None
        if not config.head_probability:
            yield from commit(torch.tensor(ids), cache)
            return len(ids)
        cache.truncate(start - 1)  # the newest token is read again: it predicts the first
        found = yield from CausalReader(cache).read(torch.tensor([self._newest, *ids]))
        kept = _beginning(np.exp(found[1:]) >= config.head_probability)
        if kept < least and not (has_end and kept == len(ids)):
            self.refused, kept = ids[: kept + 1], 0
        else:
            self.refused = ids[kept : kept + 1]
        cache.truncate(start + kept)
        return kept


def good_prefix(tokens: Tokens, is_good: NDArray[np.bool_], ends: Sequence[int]) -> int:
    """Returns how many tokens of a canvas (C,) are good without a gap; the first of ``ends`` is the last of them."""
    kept = _beginning(is_good)
    ended = np.flatnonzero(np.isin(tokens[:kept], ends))
    return int(ended[0]) + 1 if len(ended) else kept


def _beginning(mask: NDArray[np.bool_]) -> int:
    """Returns the number of places (C,) before the first that is False."""
    return len(mask) if mask.all() else int(np.argmin(mask))
