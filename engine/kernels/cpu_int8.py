"""bf16 activations times int8 rows on a CPU: by torch's kernel, which decodes in registers, or by matrix units.

Measured on a core with AVX-512, 4096 rows of 2816: 0.7 ms for one token against 1.9 when decoding into a buffer and
multiplying there, 1.4 against 2.7 for four; from eight tokens on matrix units are as fast.

For more tokens there is one in C (``native/linear.c``) where the processor has matrix units. Rows are decoded in the
first cache and the result is rounded once. A row's result does not depend on the others.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from engine.kernels import native
from engine.quant import INT8, Packed, unpack

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


UNIT = 32  # inputs and outputs are multiples of it


@functools.cache
def multiplies_many() -> bool:
    """Returns True if this processor has the units, and the kernel's products are right."""
    if native.library() is None or native.library() is not native.load("amx"):
        return False
    codes = torch.arange(2 * UNIT * 3 * UNIT).mul(37).to(torch.int8).view(2 * UNIT, -1)
    weight = Packed(codes, torch.arange(1.0, 1 + 2 * UNIT)[None], INT8)
    x = torch.eye(3 * UNIT, dtype=torch.bfloat16)[:40]
    return torch.equal(multiply_many(x, weight, 1), (x.float() @ unpack(weight).T).bfloat16())


def takes_many(x: Tensor, weight: Packed) -> bool:
    """Returns True if the kernel is used for x (N, in) times a packed (out, in)."""
    fits = weight.scheme == INT8 and x.dtype == torch.bfloat16 and not any(size % UNIT for size in weight.shape)
    return fits and len(x) > 0 and weight.codes.is_contiguous() and weight.scales.is_contiguous() and multiplies_many()


def multiply_many(x: Tensor, weight: Packed, threads: int) -> Tensor:
    """Multiplies x (N, in), bf16 and contiguous, by a packed (out, in) -> bf16 (N, out).

    Raises:
        SafelightError: memory is short.
    """
    out = x.new_empty(len(x), weight.shape[0])
    pointers = (part.data_ptr() for part in (weight.codes, weight.scales, x, out))
    native.check(native.needed().native_linear(*pointers, *out.shape, x.shape[1], threads), "a product")
    return out
