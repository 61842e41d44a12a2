"""The attention masks of text, and of an image, that is appended to text."""

from __future__ import annotations

import torch
from torch import Tensor


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


def block_causal_mask(committed: int, count: int, block: int, device: torch.device) -> Tensor:
    """Returns a ``causal_mask`` without a window for text in blocks of ``block`` tokens, counted from its beginning.

    Each token attends to all of its block; 1 is causal.
    """
    query = torch.arange(committed, committed + count, device=device)[:, None]
    key = torch.arange(committed + count, device=device)[None, :]
    return key < (query // block + 1) * block


def image_mask(committed: int, count: int, window: int | None, device: torch.device) -> Tensor | None:
    """Returns a ``causal_mask`` for an image's tokens, which also attend to one another; None: to everything."""
    if window is None:
        return None
    mask = causal_mask(committed, count, window, device)
    mask[:, mask.shape[1] - count :] = True
    return mask
