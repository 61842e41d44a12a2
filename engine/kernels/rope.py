"""The rotation of rotary position embedding, shared by layers and the oracle of their kernel."""

from __future__ import annotations

import torch
from torch import Tensor


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates heads (..., T, D) by tables that broadcast to them; pairs are (i, i + D/2).

    Of tables narrower than a head, only its first numbers are rotated, as a head of their own.
    """
    turning = cos.shape[-1]
    if turning < x.shape[-1]:
        return torch.cat([rotate(x[..., :turning], cos, sin), x[..., turning:]], dim=-1)
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * cos + turned * sin
