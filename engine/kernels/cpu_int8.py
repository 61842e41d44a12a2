"""torch's int8 kernel for CPUs: bf16 activations times int8 rows, which it decodes in registers.

Measured on a core with AVX-512, 4096 rows of 2816: 0.7 ms for one token against 1.9 when decoding into a buffer and
multiplying there, 1.4 against 2.7 for four; from eight tokens on matrix units are as fast.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from engine.quant import INT8, Packed

FEW = 4  # tokens up to which it is taken, by the times above
AT_ONCE = 16  # inputs, a byte each, that one instruction reads: rows must have and begin at a multiple of it


@functools.cache
def is_fast() -> bool:
    """Returns True if this processor's kernel has vector instructions; otherwise it is a scalar loop."""
    return torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")


def takes(x: Tensor, weight: Packed) -> bool:
    """Returns True if the kernel is used for x (N, in) times a packed (out, in)."""
    fits = weight.scheme == INT8 and x.dtype == torch.bfloat16 and weight.shape[-1] % AT_ONCE == 0
    return fits and len(x) <= FEW and is_aligned(weight.codes) and is_fast()


def is_aligned(codes: Tensor) -> bool:
    """Returns True if codes begin where the kernel can read them; in a mapped file they may begin anywhere."""
    return codes.data_ptr() % AT_ONCE == 0


def multiply(x: Tensor, weight: Packed) -> Tensor:
    """Multiplies x (N, in) in bf16 by a packed (out, in) -> (N, out)."""
    ones = x.new_ones(weight.shape[0])  # the kernel takes scales in bf16, which would round them
    out: Tensor = torch.ops.aten._weight_int8pack_mm(x, weight.codes, ones)
    return out.mul_(weight.scales[0])
