"""GGUF's types of four bits: taken over exactly, by the arithmetic of the ``gguf`` package."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize, quantize

from engine.quant import UINT4, unpack
from engine.weights.gguf.fours import READERS, read_fours
from tests.engine import gguf_files

ROWS = np.random.default_rng(0).standard_normal((24, 512), np.float32) + 0.2


@pytest.mark.parametrize("kind", [Kind.Q4_0, Kind.Q4_1])
def test_codes_scales_and_minima_are_those_of_the_file(kind: Kind) -> None:
    data = quantize(ROWS, kind)
    packed = read_fours(data, kind)
    assert packed.scheme == UINT4
    assert torch.equal(unpack(packed), torch.from_numpy(dequantize(data, kind)))


def test_of_superblocks_only_scales_are_rounded() -> None:
    data = gguf_files.encoded(ROWS, Kind.Q4_K)
    expected = torch.from_numpy(dequantize(data, Kind.Q4_K))
    found = unpack(read_fours(data, Kind.Q4_K))
    assert ((found - expected).norm() / expected.norm()).item() < 1e-3
    assert (found - expected).abs().max().item() < 2e-3 * float(np.abs(ROWS).max())


def test_every_reader_takes_any_bytes() -> None:
    """Also those of no model: what is not finite is refused by the checkpoint, which ``test_gguf`` holds."""
    for kind, size in zip(READERS, (18, 20, 144), strict=True):
        data = np.random.default_rng(1).integers(0, 256, (8, 4 * size), np.uint8)
        assert read_fours(data, kind).shape[0] == 8
