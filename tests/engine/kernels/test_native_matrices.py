"""Matrices as the kernels in C read them: every kind decodes and multiplies to its values."""

from __future__ import annotations

import pytest
import torch

from engine.kernels.cpu_decode import BLOCKS, BlockRows
from engine.kernels.native import matrices
from engine.quant import INT4, INT4_G64, INT8, NF4, UINT4, Packed, Scheme, pack
from tests.engine.kernels.blocks import in_blocks, random


def made_of(scheme: Scheme, block: int, *, pairs: bool = False) -> Packed:
    """A weight of three blocks; ``pairs``: with the scales of int4 as linear layers hold them."""
    made = in_blocks(pack(random(3 * block, 192), scheme), block)
    scales = torch.stack([made.scales, torch.zeros_like(made.scales)], dim=-1)[..., 0] if pairs else made.scales
    return Packed(made.codes, scales, scheme, block=block)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("scheme", "pairs"), [(INT4, True), (INT4, False), (INT4_G64, True), (UINT4, False)], ids=str)
def test_codes_are_decoded_as_by_torch(scheme: Scheme, pairs: bool, dtype: torch.dtype, block: int) -> None:
    whole = made_of(scheme, block, pairs=pairs)
    for weight in (whole, whole.part(slice(block, 3 * block)), whole.rows(0, 2 * block)):
        found, want = (torch.empty(weight.shape[::-1], dtype=dtype) for _ in range(2))
        matrices.decode(weight, found)
        decoder = BLOCKS[scheme]
        assert isinstance(decoder, BlockRows)
        decoder.fill(weight, want.T)
        torch.testing.assert_close(found, want, rtol=8e-3 if dtype == torch.bfloat16 else 1e-6, atol=1e-6)


@pytest.mark.parametrize("scheme", [INT4, UINT4], ids=str)
def test_codes_are_put_into_blocks_as_by_torch(scheme: Scheme, block: int) -> None:
    made = pack(random(3 * block, 192), scheme)
    found = Packed(made.codes.clone(), made.scales.contiguous().clone(), scheme)
    matrices.to_blocks(found, block)
    want = in_blocks(made, block)
    assert torch.equal(found.codes, want.codes)
    assert torch.equal(found.scales, want.scales)


def test_other_codes_stay_with_torch(block: int) -> None:
    weight = made_of(INT4, block, pairs=True)
    assert matrices.decodes(weight)
    assert not matrices.decodes(Packed(weight.codes, weight.scales, INT4, block=2 * block))
    assert not matrices.decodes(pack(random(64, 64), INT4))
    assert not matrices.decodes(pack(random(64, 64), INT8))
    assert matrices.group_of(matrices.Projection(pack(random(64, 64), NF4))) is None
    assert matrices.group_of(matrices.Projection(torch.randn(64, 60))) is None
    assert matrices.group_of(matrices.Projection(torch.randn(64, 64))) == 0
    assert matrices.group_of(matrices.Projection(torch.randn(64, 64).double())) is None
