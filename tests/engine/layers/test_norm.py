"""The norm in one call of torch's is the norm as it is written out, bit for bit."""

from __future__ import annotations

import pytest
import torch

from engine.layers.norm import RMSNorm


@pytest.mark.parametrize("size", [1, 7, 32, 48, 128])
@pytest.mark.parametrize("with_scale", [True, False])
def test_one_call_is_what_is_written_out(size: int, with_scale: bool) -> None:
    layer = RMSNorm(size, 1e-6, with_scale)
    if layer.weight is not None:
        torch.nn.init.uniform_(layer.weight, 0.5, 1.5)
    rows = 3 * torch.randn(1, 9, 4 * size)
    heads = rows.view(1, 9, 4, size).transpose(1, 2)
    for x in (heads, heads[:, :, 2:5], torch.zeros(2, size)):
        written = layer(x).detach()
        with torch.inference_mode():
            assert torch.equal(layer(x), written)
