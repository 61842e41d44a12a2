"""Linear layers on 4-bit weights against plain torch."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from engine.kernels import linear_w4a16
from engine.kernels.table import FOUR_BIT, find
from engine.quant import INT4, INT4_G64, NF4, NVFP4, UINT4, Scheme, pack, unpack
from engine.quant.integers import rounded


@pytest.mark.parametrize(
    ("scheme", "tokens", "inputs", "rows", "splits", "dtype"),
    [
        (INT4, 1, 128, 64, None, torch.float32),
        (INT4, 5, 192, 97, 3, torch.float32),
        (NF4, 16, 256, 71, 2, torch.float32),
        (NF4, 33, 128, 130, 2, torch.float16),
        (INT4_G64, 67, 64, 30, None, torch.float32),
        (NVFP4, 5, 256, 97, 2, torch.float32),
        (UINT4, 1, 576, 64, 3, torch.float32),
        (UINT4, 67, 256, 71, 2, torch.float16),
    ],
)
def test_linear(scheme: Scheme, tokens: int, inputs: int, rows: int, splits: int | None, dtype: torch.dtype) -> None:
    """Odd numbers of rows, tiles that are not full, and splits of one tile and of two; leading dimensions, strides."""
    draws = torch.Generator().manual_seed(tokens)
    weight = pack(torch.randn(rows, inputs, generator=draws) + (scheme == UINT4) * 0.4, scheme)
    x = torch.randn(1, tokens, 2 * inputs, generator=draws).to(dtype)[..., :inputs]
    want = F.linear(x.float(), rounded(weight) if scheme == UINT4 else unpack(weight))
    for _ in range(2):  # the second time the counters are as the first left them
        found = linear_w4a16.linear_w4a16(x, weight, splits=splits)
        assert found.dtype == dtype
        torch.testing.assert_close(found.float(), want, atol=1e-4 if dtype == torch.float32 else 0.05, rtol=1e-3)


def test_it_serves_cards_and_fills_them() -> None:
    """WeDLM-8B's products: two to eight programs a tile on a card with 132 multiprocessors, in equal shares."""
    assert all(find("linear", scheme, "triton") is linear_w4a16.linear_w4a16 for scheme in (*FOUR_BIT, UINT4))
    found = {}
    for name, rows, inputs in (("keys", 1024, 4096), ("out", 4096, 4096), ("up", 12_288, 4096), ("down", 4096, 12_288)):
        blocks = linear_w4a16.LinearBlocks.for_shape(16, inputs)
        turns = inputs // (64 * blocks.tiles)
        found[name] = linear_w4a16.splits_for(rows // blocks.rows, turns, 132)
        assert turns % found[name] == 0
    assert found == {"keys": 8, "out": 4, "up": 2, "down": 6}
    assert linear_w4a16.splits_for(2000, 64, 132) == linear_w4a16.splits_for(10, 7, 132) == 1
