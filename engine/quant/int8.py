"""int8: symmetric, -127 to 127 times a scale: of fp32 for a whole row; or of fp16 for 32 or 16 inputs, as in GGUF."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from engine.quant.scheme import Packed, Scaled, register


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
