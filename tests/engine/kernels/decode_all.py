"""A kernel that decodes every code at every position, for the bitwise check of ``kernels.decode``."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.decode import decode

ROWS = 256  # per program


@triton.jit
def decode_all_kernel(
    words_ptr, low_ptr, high_ptr, low_eights_ptr, high_eights_ptr, out_ptr, rows,
    CODES: tl.constexpr, PTX: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Decodes ROWS rows of 16 words each. Grid: row blocks."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = row[:, None] * 16 + tl.arange(0, 16)[None, :]
    low = tl.broadcast_to(tl.load(low_ptr + row)[:, None], (ROWS, 16))
    high = tl.broadcast_to(tl.load(high_ptr + row)[:, None], (ROWS, 16))
    low_eights, high_eights = None, None
    if low_eights_ptr is not None:
        low_eights = tl.broadcast_to(tl.load(low_eights_ptr + row)[:, None], (ROWS, 16))
        high_eights = tl.broadcast_to(tl.load(high_eights_ptr + row)[:, None], (ROWS, 16))
    words = tl.load(words_ptr + at)
    parts = decode(words, low, high, CODES, PTX, out_ptr.dtype.element_ty, low_eights, high_eights)
    for part in tl.static_range(4):
        tl.store(out_ptr + part * rows * 16 + at, parts[part])


def decode_all(words: Tensor, low: Tensor, high: Tensor, *eights: Tensor, codes: str, dtype: torch.dtype) -> Tensor:
    """Decodes words (R, 16) int16, R a multiple of 256, with bf16 scales (R,) of low and high codes -> (4, R, 16).

    Scales, and with uint4 two ``eights`` (R,) in bf16, are as ``decode`` takes them for ``codes``.
    """
    out = torch.full((4, *words.shape), float("nan"), dtype=dtype, device=words.device)
    launch: Any = decode_all_kernel[(words.shape[0] // ROWS,)]
    added: list[Tensor | None] = [each.view(torch.int16) for each in eights] or [None, None]
    launch(
        words, low.view(torch.int16), high.view(torch.int16), *added, out, words.shape[0],
        CODES=codes, PTX=words.is_cuda and dtype == torch.bfloat16, ROWS=ROWS, num_warps=4, enable_fp_fusion=True,
    )  # fmt: skip
    return out
