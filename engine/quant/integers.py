"""int4 and int8, symmetric.

int4: -8 to 7 times a bf16 scale, over 32 or 64 consecutive inputs; a code is the value plus 8. int8: -127 to 127 times
a scale, of fp32 for a whole row, or of fp16 for 32 or 16 inputs, as in GGUF.
"""

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


class Int8(Scaled):
    """Codes are the values themselves."""

    bits: ClassVar[int] = 8
    codes_dtype: ClassVar[torch.dtype] = torch.int8
    scale_dtype: ClassVar[torch.dtype] = torch.float32
    spread: ClassVar[float] = 73.3

    def scales(self, extreme: Tensor) -> Tensor:
        return extreme.abs() / 127.0

    def encode(self, scaled: Tensor) -> Tensor:
        return scaled.round().clamp(-127, 127).to(torch.int8)

    def decode(self, packed: Packed) -> Tensor:
        return packed.codes.float()


class Int8Groups(Int8):
    """Scales are fp16."""

    scale_dtype: ClassVar[torch.dtype] = torch.float16


INT8 = register(Int8("int8", 0))
INT8_G32 = register(Int8Groups("int8-g32", 32))
INT8_G16 = register(Int8Groups("int8-g16", 16))
