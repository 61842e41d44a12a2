"""int4: symmetric, -8 to 7 times a bf16 scale, over 32 or 64 consecutive inputs. A code is the value plus 8."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from engine.quant.nibbles import TILE, join_nibbles, split_blocks, split_nibbles
from engine.quant.scheme import Packed, Scaled, register


class Int4(Scaled):
    """Codes in tiles, or, in memory, in blocks of rows."""

    bits: ClassVar[int] = 4
    codes_dtype: ClassVar[torch.dtype] = torch.uint8
    scale_dtype: ClassVar[torch.dtype] = torch.bfloat16
    spread: ClassVar[float] = 4.64
    unit: ClassVar[int] = TILE
    unpacking_bytes: ClassVar[int] = 9  # nibbles, then values and products

    def scales(self, extreme: Tensor) -> Tensor:
        """Returns scales that map a group's extreme to -8, whatever its sign, so that no code is unused."""
        return extreme / -8.0

    def encode(self, scaled: Tensor) -> Tensor:
        return join_nibbles((scaled.round().clamp(-8, 7) + 8).to(torch.uint8))

    def decode(self, packed: Packed) -> Tensor:
        nibbles = split_blocks(packed.codes, packed.block) if packed.block else split_nibbles(packed.codes)
        return nibbles.float() - 8


INT4 = register(Int4("int4-g32", 32))
INT4_G64 = register(Int4("int4-g64", 64))
