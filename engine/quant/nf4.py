"""nf4: bitsandbytes' 16 normal-float values times a bf16 absmax over 64 consecutive inputs."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from engine.quant.nibbles import TILE, join_nibbles, split_nibbles
from engine.quant.scheme import Packed, Scaled, register

# Quantiles of a normal distribution, as in bitsandbytes' NF4 (source: QLoRA, arXiv 2305.14314).
NF4_VALUES = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip


class NormalFloat4(Scaled):
    """Codes in tiles."""

    bits: ClassVar[int] = 4
    codes_dtype: ClassVar[torch.dtype] = torch.uint8
    scale_dtype: ClassVar[torch.dtype] = torch.bfloat16
    spread: ClassVar[float] = 0.56
    unit: ClassVar[int] = TILE
    unpacking_bytes: ClassVar[int] = 9  # nibbles, then values and products

    def scales(self, extreme: Tensor) -> Tensor:
        return extreme.abs()

    def encode(self, scaled: Tensor) -> Tensor:
        values = torch.tensor(NF4_VALUES)
        nibbles = torch.zeros_like(scaled, dtype=torch.uint8)
        for midpoint in ((values[1:] + values[:-1]) / 2).tolist():
            nibbles += scaled > midpoint  # several times as fast as bucketize
        return join_nibbles(nibbles)

    def decode(self, packed: Packed) -> Tensor:
        return torch.tensor(NF4_VALUES, device=packed.codes.device)[split_nibbles(packed.codes).long()]


NF4 = register(NormalFloat4("nf4-g64", 64))
