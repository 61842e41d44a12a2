"""bf16 activations times int8 rows by the matrix units, in C: ``native/linear.c``.

Rows are decoded in the first cache and the result is rounded once. A row's result does not depend on the others.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from engine.kernels import native
from engine.quant import INT8, Packed, unpack

UNIT = 32  # inputs and outputs are multiples of it


@functools.cache
def is_there() -> bool:
    """Returns True if this processor has the units, and the kernel's products are right."""
    if native.library() is None or native.library() is not native.load("amx"):
        return False
    codes = torch.arange(2 * UNIT * 3 * UNIT).mul(37).to(torch.int8).view(2 * UNIT, -1)
    weight = Packed(codes, torch.arange(1.0, 1 + 2 * UNIT)[None], INT8)
    x = torch.eye(3 * UNIT, dtype=torch.bfloat16)[:40]
    return torch.equal(multiply(x, weight, 1), (x.float() @ unpack(weight).T).bfloat16())


def takes(x: Tensor, weight: Packed) -> bool:
    """Returns True if the kernel is used for x (N, in) times a packed (out, in)."""
    fits = weight.scheme == INT8 and x.dtype == torch.bfloat16 and not any(size % UNIT for size in weight.shape)
    return fits and len(x) > 0 and weight.codes.is_contiguous() and weight.scales.is_contiguous() and is_there()


def multiply(x: Tensor, weight: Packed, threads: int) -> Tensor:
    """Multiplies x (N, in), bf16 and contiguous, by a packed (out, in) -> bf16 (N, out).

    Raises:
        SafelightError: memory is short.
    """
    out = x.new_empty(len(x), weight.shape[0])
    pointers = (part.data_ptr() for part in (weight.codes, weight.scales, x, out))
    native.check(native.needed().native_linear(*pointers, *out.shape, x.shape[1], threads), "a product")
    return out
