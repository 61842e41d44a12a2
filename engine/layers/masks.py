"""The attention masks of text, and of an image, that is appended to text."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Blocks:
    """The blocks in which text is read. Each token attends to all of its block, and to the blocks before it.

    Args:
        size: tokens of a block; 1 is causal.
        first: tokens of the first block if that is shorter, else 0.
    """

    size: int = 1
    first: int = 0

    @staticmethod
    def ending_at(length: int, size: int) -> Blocks:
        """Returns blocks of which one ends behind a text of ``length`` tokens."""
        return Blocks(size, length % size)

    def before(self, place: int) -> int:
        """Returns how many tokens of its block come before a place, as if the first block were not shorter."""
        return (place - self.first) % self.size


CAUSAL = Blocks()
"""Blocks of one token."""


def causal_mask(committed: int, count: int, window: int | None, device: torch.device) -> Tensor:
    """Returns the causal mask of ``count`` tokens appended to ``committed`` ones.

    Args:
        window: tokens that each one attends to, itself included; a layer then holds at most ``window`` - 1 committed
            ones. None: all.

    Returns:
        Bools (count, visible committed + count), True where attention is allowed.
    """
    prefix = committed if window is None else min(committed, window - 1)
    query = torch.arange(prefix, prefix + count, device=device)[:, None]
    key = torch.arange(prefix + count, device=device)[None, :]
    mask = key <= query
    return mask if window is None else mask & (key > query - window)


def block_causal_mask(committed: int, count: int, blocks: Blocks, device: torch.device) -> Tensor:
    """Returns a ``causal_mask`` without a window for text that is read in blocks."""
    query = torch.arange(committed, committed + count, device=device)[:, None]
    key = torch.arange(committed + count, device=device)[None, :]
    return key < query - (query - blocks.first) % blocks.size + blocks.size


def image_mask(committed: int, count: int, window: int | None, device: torch.device) -> Tensor | None:
    """Returns a ``causal_mask`` for an image's tokens, which also attend to one another; None: to everything."""
    if window is None:
        return None
    mask = causal_mask(committed, count, window, device)
    mask[:, mask.shape[1] - count :] = True
    return mask
