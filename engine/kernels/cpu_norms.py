"""RMS norms of bf16 on a CPU, alone or with the rotation of heads, by the kernel in C: ``native/norms.c``.

One pass in place of seven, fp32 inside and rounded once at the end, as the kernels of cards do; layers of
plain torch also round between norm and rotation, and in it.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from engine.kernels import native

UNIT = 32  # numbers of a row come in multiples of it
LEAST_WORK = 1 << 18  # numbers from which rows are divided among threads
KINDS: dict[torch.dtype | None, int] = {None: 0, torch.float32: 1, torch.bfloat16: 2}  # of factors, as in norms.c


class _Norms(ctypes.Structure):
    """``norms`` of norms.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("x", "factors", "out", "added", "cos", "sin")),
        *((name, ctypes.c_int64) for name in ("rows", "size", "stride", "heads", "factors_are", "threads")),
        *((name, ctypes.c_double) for name in ("eps", "times")),
    )


def serves(x: Tensor, size: int) -> bool:
    """Returns True if the functions below take x, normed by rows of a size."""
    is_plain = x.dtype == torch.bfloat16 and x.device.type == "cpu" and not torch.is_grad_enabled()
    return is_plain and size % UNIT == 0 and x.stride(-1) == 1 and native.library() is not None


def norm(x: Tensor, factors: Tensor | None, eps: float, added: Tensor | None = None, times: float = 1.0) -> Tensor:
    """Returns x / rms(x) over the last dimension, times factors (size,); with ``added``, of x's shape, their sum times
    a number.
    """
    flat = x.reshape(-1, x.shape[-1])
    out = torch.empty(x.shape, dtype=x.dtype)
    _run(out, flat, factors, eps, added=None if added is None else added.contiguous(), times=times)
    return out


def norm_heads(x: Tensor, size: int, factors: Tensor | None, rope: tuple[Tensor, Tensor] | None, eps: float) -> Tensor:
    """Norms each head of x (T, heads * size), and rotates it by cosines and sines (T, size) -> (heads, T, size)."""
    out = x.new_empty(x.shape[1] // size, x.shape[0], size)
    _run(out, x, factors, eps, len(out), rope)
    return out


def rotates(rope: tuple[Tensor, Tensor], rows: int, size: int) -> bool:
    """Returns True if ``norm_heads`` takes cosines and sines for heads of a size."""
    return all(part.dtype == torch.bfloat16 and part.shape == (rows, size) and part.is_contiguous() for part in rope)


def _run(
    out: Tensor,
    x: Tensor,
    factors: Tensor | None,
    eps: float,
    heads: int = 0,
    rope: tuple[Tensor, Tensor] | None = None,
    added: Tensor | None = None,
    times: float = 1.0,
) -> None:
    factors = None if factors is None else factors.contiguous()
    kind = KINDS[None if factors is None else factors.dtype]
    tensors = (x, factors, out, added, *(rope or (None, None)))
    pointers = [None if part is None else part.data_ptr() for part in tensors]
    threads = torch.get_num_threads() if out.numel() >= LEAST_WORK else 1
    sizes = (len(x), out.shape[-1], x.stride(0), heads, kind, threads)
    native.check(native.needed().native_norms(ctypes.byref(_Norms(*pointers, *sizes, eps, times))), "a norm")
