"""Sorting, decoding and the grouped products, in Triton's interpreter, against plain torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.config import GELU, Activation
from engine.kernels import reference
from engine.kernels.expert_gemm import ProductBlocks, experts
from engine.kernels.router import group
from engine.kernels.table import schemes
from engine.quant import SCHEMES, pack

FOUR_BIT = [str(scheme) for scheme in schemes("experts", "triton")]


def choices(tokens: int, top_k: int, experts: int) -> Tensor:
    """(N, K), distinct in a row."""
    return torch.rand(tokens, experts, generator=torch.Generator().manual_seed(0)).argsort(dim=-1)[:, :top_k]


def shared(*loads: int) -> Tensor:
    """One expert for each token, in any order; so many tokens for each expert."""
    chosen = torch.repeat_interleave(torch.arange(len(loads)), torch.tensor(loads))
    return chosen[torch.randperm(len(chosen), generator=torch.Generator().manual_seed(1)), None]


@pytest.mark.parametrize(
    ("chosen", "experts", "block"),
    [
        (choices(64, 8, 24), 24, 32),
        (choices(37, 2, 4), 4, 16),
        (choices(1, 1, 1), 1, 16),
        (choices(16, 1, 1), 1, 16),
        (choices(1100, 2, 3).to(torch.int32), 3, 16),  # beyond one chunk
        (shared(0, 32, 0, 5), 4, 16),
        (shared(33, 0, 0, 0), 4, 16),
        (shared(0, 0, 0, 16), 4, 16),
        (shared(15, 1, 17, 31), 4, 16),
    ],
)
def test_pairs_are_sorted_by_expert(chosen: Tensor, experts: int, block: int) -> None:
    pairs, offsets, tiles = group(chosen, experts, block)
    flat = chosen.flatten()
    assert pairs.tolist() == flat.sort(stable=True).indices.tolist()
    counts = torch.bincount(flat, minlength=experts)
    assert offsets.tolist() == [0, *counts.cumsum(0).tolist()]
    used = [tuple(tile) for tile in tiles.tolist() if tile[0] >= 0]
    starts = offsets.tolist()
    assert used == [(e, at) for e in range(experts) for at in range(starts[e], starts[e + 1], block)]
    assert len(tiles) == flat.numel() // block + experts


@pytest.mark.parametrize("scheme", FOUR_BIT)
@pytest.mark.parametrize(
    ("chosen", "hidden", "width", "tiles", "activation", "dtype"),
    [
        (choices(1, 2, 4), 64, 64, 1, "silu", torch.float32),
        (choices(19, 2, 3) + 1, 128, 64, 2, GELU, torch.float32),  # the first expert has no tokens
        (torch.tensor([[2, 0]]).expand(17, 2), 64, 128, 1, GELU, torch.float16),  # two have all of them
    ],
)
def test_experts_match_the_reference(
    scheme: str, chosen: Tensor, hidden: int, width: int, tiles: int, activation: Activation, dtype: torch.dtype
) -> None:
    random = torch.Generator().manual_seed(len(chosen))
    gate_up = pack(torch.randn(4, 2 * width, hidden, generator=random) * hidden**-0.5, SCHEMES[scheme], matrices=2)
    down = pack(torch.randn(4, hidden, width, generator=random) * width**-0.5, SCHEMES[scheme])
    for packed in (gate_up, down):
        if packed.matrix_scales is not None:  # no two alike
            packed.matrix_scales.mul_(torch.rand(packed.matrix_scales.shape, generator=random) + 0.5)
    x = torch.randn(len(chosen), hidden, generator=random).to(dtype)
    weights = torch.rand(chosen.shape, generator=random)
    got = experts(x, weights, chosen, gate_up, down, activation, ProductBlocks(16, 64, 4, 1, tiles))
    want = reference.experts(x, weights, chosen, gate_up, down, activation)
    tolerance = 2e-5 if dtype == torch.float32 else 4e-3
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def test_mixed_schemes_and_large_numbers_by_default_blocks() -> None:
    random = torch.Generator().manual_seed(3)
    gate_up = pack(torch.randn(4, 128, 64, generator=random), SCHEMES["int4-g64"])
    down = pack(torch.randn(4, 64, 64, generator=random), SCHEMES["int4-g32"])
    x, weights, chosen = torch.randn(5, 64, generator=random), torch.rand(5, 2, generator=random), choices(5, 2, 4)
    want = reference.experts(x, weights, chosen, gate_up, down)
    torch.testing.assert_close(experts(x, weights, chosen, gate_up, down), want, rtol=1e-4, atol=1e-3)
