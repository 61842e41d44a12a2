"""Who may look at whom, where text is appended to text."""

from __future__ import annotations

import torch
from torch import Tensor


def causal_mask(committed: int, count: int, window: int | None, device: torch.device) -> Tensor:
    """Who may look at whom when ``count`` tokens are appended to ``committed`` ones.

    Args:
        window: tokens that each one sees, itself included; of the committed ones, a layer then holds ``window`` - 1 at
            most. None: all.

    Returns:
        Bools (count, visible committed + count), True to look.
    """
    prefix = committed if window is None else min(committed, window - 1)
    query = torch.arange(prefix, prefix + count, device=device)[:, None]
    key = torch.arange(prefix + count, device=device)[None, :]
    mask = key <= query
    return mask if window is None else mask & (key > query - window)
