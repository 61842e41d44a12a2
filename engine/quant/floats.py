"""nf4, fp4 and NVFP4: 16 values times a scale.

nf4 and fp4 are bitsandbytes', times an absmax over 64 consecutive inputs. That of what we pack is bf16; of what
bitsandbytes packed it stays fp32.

NVFP4: e2m1 values times an e4m3 scale over 16 consecutive inputs, times an fp32 scale of the matrix. A code is a 4-bit
float: sign, two bits of exponent, one of mantissa. The scales of a tile of 64 inputs are one 32-bit word, the first
group's in its low byte: published scales (out, in / 16) are such words already. A value times its group's scale has six
significant bits, so that bf16 and fp16 hold it exactly; only the last factor, the matrix's, rounds. Matrices with
scales of their own can thus be stacked, gate on up, without loss.
"""

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


# A sign, two bits of exponent and one of mantissa, over the largest value, as in bitsandbytes' FP4.
_SIZES = (0.0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0)
FP4_VALUES = tuple(sign * size / 12 for sign in (1, -1) for size in _SIZES)


class NormalFloat4(Scaled):
    """Codes in tiles."""

    bits: ClassVar[int] = 4
    codes_dtype: ClassVar[torch.dtype] = torch.uint8
    scale_dtype: ClassVar[torch.dtype] = torch.bfloat16
    spread: ClassVar[float] = 0.56
    unit: ClassVar[int] = TILE
    unpacking_bytes: ClassVar[int] = 9  # nibbles, then values and products
    book: ClassVar[tuple[float, ...]] = NF4_VALUES

    def scales(self, extreme: Tensor) -> Tensor:
        return extreme.abs()

    def encode(self, scaled: Tensor) -> Tensor:
        values, order = torch.tensor(self.book).sort()
        nibbles = torch.zeros_like(scaled, dtype=torch.uint8)
        for midpoint in ((values[1:] + values[:-1]) / 2).tolist():
            nibbles += scaled > midpoint  # several times as fast as bucketize
        return join_nibbles(nibbles if self.book == NF4_VALUES else order.to(torch.uint8)[nibbles.long()])

    def decode(self, packed: Packed) -> Tensor:
        return torch.tensor(self.book, device=packed.codes.device)[split_nibbles(packed.codes).long()]


class WideNormalFloat4(NormalFloat4):
    """The absmax is fp32."""

    scale_dtype: ClassVar[torch.dtype] = torch.float32


class WideFloat4(WideNormalFloat4):
    """The values are those of fp4."""

    spread: ClassVar[float] = 0.49
    book: ClassVar[tuple[float, ...]] = FP4_VALUES


NF4 = register(NormalFloat4("nf4-g64", 64))
NF4_F32 = register(WideNormalFloat4("nf4-g64-f32", 64))
FP4_F32 = register(WideFloat4("fp4-g64-f32", 64))


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
