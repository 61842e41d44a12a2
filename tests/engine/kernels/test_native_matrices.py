"""Matrices as the kernels in C read them: every kind decodes and multiplies to its values."""

from __future__ import annotations

import pytest
import torch

from engine.kernels.cpu_decode import BLOCKS, BlockRows
from engine.kernels.native import matrices
from engine.quant import INT4, INT4_G64, INT8, NF4, UINT4, Packed, Scheme, pack, to_blocks
from engine.quant.integers import for_blocks

DRAWS = torch.Generator().manual_seed(7)


def in_blocks(scheme: Scheme, block: int, *, pairs: bool) -> Packed:
    """A weight of three blocks; ``pairs``: with the scales of int4 as linear layers hold them."""
    made = pack(torch.randn(3 * block, 192, generator=DRAWS), scheme)
    codes, scales = made.codes.clone(), made.scales.contiguous()
    to_blocks(codes, block)
    if scheme == UINT4:
        scales = for_blocks(scales)
    elif pairs:
        scales = torch.stack([scales, torch.zeros_like(scales)], dim=-1)[..., 0]
    return Packed(codes, scales, scheme, block=block)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("scheme", "pairs"), [(INT4, True), (INT4, False), (INT4_G64, True), (UINT4, False)], ids=str)
def test_codes_are_decoded_as_by_torch(scheme: Scheme, pairs: bool, dtype: torch.dtype, block: int) -> None:
    whole = in_blocks(scheme, block, pairs=pairs)
    for weight in (whole, whole.part(slice(block, 3 * block)), whole.rows(0, 2 * block)):
        found, want = (torch.empty(weight.shape[::-1], dtype=dtype) for _ in range(2))
        matrices.decode(weight, found)
        decoder = BLOCKS[scheme]
        assert isinstance(decoder, BlockRows)
        decoder.fill(weight, want.T)
        torch.testing.assert_close(found, want, rtol=8e-3 if dtype == torch.bfloat16 else 1e-6, atol=1e-6)


@pytest.mark.parametrize("scheme", [INT4, UINT4], ids=str)
def test_codes_are_put_into_blocks_as_by_torch(scheme: Scheme, block: int) -> None:
    made = pack(torch.randn(3 * block, 192, generator=DRAWS), scheme)
    found = Packed(made.codes.clone(), made.scales.contiguous().clone(), scheme)
    matrices.to_blocks(found, block)
    want = made.codes.clone()
    to_blocks(want, block)
    assert torch.equal(found.codes, want)
    assert torch.equal(found.scales, for_blocks(made.scales) if scheme == UINT4 else made.scales)


def test_other_codes_stay_with_torch(block: int) -> None:
    weight = in_blocks(INT4, block, pairs=True)
    assert matrices.decodes(weight)
    assert not matrices.decodes(Packed(weight.codes, weight.scales, INT4, block=2 * block))
    assert not matrices.decodes(pack(torch.randn(64, 64, generator=DRAWS), INT4))
    assert not matrices.decodes(pack(torch.randn(64, 64, generator=DRAWS), INT8))
    assert matrices.group_of(matrices.Projection(pack(torch.randn(64, 64, generator=DRAWS), NF4))) is None
    assert matrices.group_of(matrices.Projection(torch.randn(64, 60))) is None
    assert matrices.group_of(matrices.Projection(torch.randn(64, 64))) == 0
    assert matrices.group_of(matrices.Projection(torch.randn(64, 64).double())) is None
