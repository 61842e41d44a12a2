"""Rotary position embedding, default and "proportional" (only a leading share of a head's pairs is rotated)."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.config import LayerConfig


def inverse_frequencies(layer: LayerConfig) -> Tensor:
    """Frequency of each of a head's pairs, (D/2,), in radians per position; 0 for pairs that are not rotated."""
    turning = int(layer.partial_rotary_factor * layer.head_dim // 2)
    exponents = torch.arange(0, 2 * turning, 2, dtype=torch.float32) / layer.head_dim
    still = torch.zeros(layer.head_dim // 2 - turning)
    return torch.cat([1.0 / layer.rope_theta**exponents, still])


def cos_sin(positions: Tensor, frequencies: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Tables for integer positions (..., T) -> two of (..., T, D), in ``dtype``."""
    angles = positions.to(torch.float32)[..., None] * frequencies  # (..., T, D/2)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos().to(dtype), angles.sin().to(dtype)
