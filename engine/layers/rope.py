"""Rotary position embedding: default, "proportional" (only a leading share of a head's pairs is rotated), stretched."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from engine.config import LayerConfig


def inverse_frequencies(layer: LayerConfig) -> Tensor:
    """Returns the frequencies of a head's pairs (D/2,), in radians per position; 0 for those that do not rotate."""
    turning = int(layer.partial_rotary_factor * layer.head_dim // 2)
    exponents = torch.arange(0, 2 * turning, 2, dtype=torch.float32) / layer.head_dim
    still = torch.zeros(layer.head_dim // 2 - turning)
    return torch.cat([1.0 / layer.rope_theta**exponents, still])


def stretched(
    frequencies: Tensor, theta: float, factor: float, original: int, beta_fast: float, beta_slow: float, truncate: bool
) -> Tensor:
    """Returns frequencies (D/2,) for ``factor`` times as many positions as ``original`` (YaRN, arXiv 2309.00071).

    Pairs that turn more than ``beta_fast`` times within the original positions stay unchanged. Pairs that turn less
    than ``beta_slow`` times are slowed down by the factor. Pairs between are slowed by a share that falls linearly with
    their number; with ``truncate`` the ends of that range are whole pairs.
    """
    pairs = len(frequencies)

    def turning(times: float) -> float:
        """Returns the pair, as a real number, that turns so many times."""
        return pairs * math.log(original / (times * 2 * math.pi)) / math.log(theta)

    low, high = turning(beta_fast), turning(beta_slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * pairs - 1)  # the reference's bound, in numbers of a head
    ramp = (torch.arange(pairs, dtype=torch.float32) - low) / (high - low if high != low else 0.001)
    slowed = ramp.clamp(0, 1)
    return frequencies / factor * slowed + frequencies * (1 - slowed)


def stretched_as_llama3(frequencies: Tensor, factor: float, original: int, low: float, high: float) -> Tensor:
    """Returns frequencies (D/2,) for a text ``factor`` times as long as ``original`` positions, by Llama 3.1's rule.

    Pairs that turn more than ``high`` times within the original positions stay unchanged. Pairs that turn less than
    ``low`` times are slowed down by the factor. Pairs between are slowed by a share that is linear in their turns.
    """
    turns = original * frequencies / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return frequencies / factor * (1 - kept) + frequencies * kept


def cos_sin(positions: Tensor, frequencies: Tensor, dtype: torch.dtype, factor: float = 1.0) -> tuple[Tensor, Tensor]:
    """Returns cosine and sine tables (..., T, D) for integer positions (..., T), in ``dtype``, times ``factor``."""
    angles = positions.to(torch.float32)[..., None] * frequencies  # (..., T, D/2)
    angles = torch.cat([angles, angles], dim=-1)
    cos, sin = angles.cos(), angles.sin()
    if factor != 1.0:
        cos, sin = cos * factor, sin * factor
    return cos.to(dtype), sin.to(dtype)
