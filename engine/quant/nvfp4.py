"""NVFP4: e2m1 values times an e4m3 scale over 16 consecutive inputs, times an fp32 scale of the matrix.

A code is a 4-bit float: sign, two bits of exponent, one of mantissa. The scales of a tile of 64 inputs are one 32-bit
word, the first group's in its low byte: published scales (out, in / 16) are such words already.

A value times its group's scale has six significant bits, so that bf16 and fp16 hold it exactly; only the last factor,
the matrix's, rounds. Matrices with scales of their own can thus be stacked, gate on up, without loss.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from engine.quant.nibbles import TILE, join_nibbles, split_nibbles
from engine.quant.scheme import Packed, Scaled, register

E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
LARGEST, LARGEST_SCALE = 6.0, 448.0  # of e2m1, and of e4m3


class Nvfp4(Scaled):
    """Codes in tiles, a word of scales a tile, a scale a matrix."""

    bits: ClassVar[int] = 4
    codes_dtype: ClassVar[torch.dtype] = torch.uint8
    scale_dtype: ClassVar[torch.dtype] = torch.int32
    spread: ClassVar[float] = 2.93
    unit: ClassVar[int] = TILE
    unpacking_bytes: ClassVar[int] = 13  # nibbles, then values, products with scales, and with matrices' scales
    has_matrix_scales: ClassVar[bool] = True

    def matrix_scale(self, matrix: Tensor) -> Tensor:
        """Returns the scale that maps the largest value of the matrix to the largest code and scale."""
        largest = matrix.abs().amax().float() / (LARGEST * LARGEST_SCALE)
        return largest.clamp_min(torch.finfo(torch.float32).tiny)

    def scales(self, extreme: Tensor) -> Tensor:
        return extreme.abs().div(LARGEST).clamp_max(LARGEST_SCALE)

    def scales_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-2], shape[-1] // TILE, shape[-2])

    def store_scales(self, scales: Tensor) -> Tensor:
        small = scales.to(torch.float8_e4m3fn, copy=True, memory_format=torch.contiguous_format)
        return small.view(torch.int32).transpose(-1, -2)

    def read_scales(self, stored: Tensor) -> Tensor:
        words = stored.transpose(-1, -2).clone(memory_format=torch.contiguous_format)
        return words.view(torch.float8_e4m3fn).float()

    def encode(self, scaled: Tensor) -> Tensor:
        """Rounds to the nearest value; between two to the one with an even code, as the format's hardware does."""
        size, nibbles = scaled.abs(), torch.signbit(scaled).to(torch.uint8) << 3
        for code in range(7):
            middle = (E2M1_VALUES[code] + E2M1_VALUES[code + 1]) / 2
            nibbles += size >= middle if code % 2 else size > middle
        return join_nibbles(nibbles)

    def decode(self, packed: Packed) -> Tensor:
        return torch.tensor(E2M1_VALUES, device=packed.codes.device)[split_nibbles(packed.codes).long()]


NVFP4 = register(Nvfp4("nvfp4", 16))
