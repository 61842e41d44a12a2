"""GGUF's types whose codes are kept: the numbers of the ``gguf`` package, and the same bits by numpy and in C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

from engine.kernels import native
from engine.quant import INT8_G16, INT8_G32, UINT4, empty, unpack
from engine.quant.integers import halves_of
from engine.weights.gguf.checkpoint import KEPT, packed_of, read_in_c

SCALES = {Kind.Q4_K: (0, 2), Kind.Q6_K: (208,), Kind.Q4_1: (0, 2)}  # places of a block's fp16 numbers; else its first
EXACT = (Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q8_0)
needs_library = pytest.mark.skipif(native.library() is None, reason="this machine has no library in C")


def blocks(kind: Kind, rows: int = 37, inputs: int = 512) -> np.ndarray:
    """Rows of any codes and inner scales, with fp16 numbers of every size from 0 to 60."""
    numbers, size = GGML_QUANT_SIZES[kind]
    draws = np.random.default_rng(int(kind))
    found = draws.integers(0, 256, (rows * inputs // numbers, size), np.uint8)
    for place in SCALES.get(kind, (0,)):
        edges = draws.choice([0.0, 6e-8, 6.1e-5, 1e-3, -0.02, 1.0, 60.0], len(found)).astype(np.float16)
        found[:, place : place + 2] = edges.view(np.uint8).reshape(-1, 2)
    return found.reshape(rows, -1)


@pytest.mark.parametrize("kind", KEPT)
def test_values_are_those_of_the_gguf_package(kind: Kind) -> None:
    """Scales of K types are rounded to fp16: by 2 ** -11 of a scale, or 2 ** -25 of the smallest ones."""
    data = blocks(kind)
    packed, expected = packed_of(data, kind), torch.from_numpy(dequantize(data, kind))
    assert packed.scheme == {Kind.Q5_0: INT8_G32, Kind.Q8_0: INT8_G32, Kind.Q6_K: INT8_G16}.get(kind, UINT4)
    if kind in EXACT:
        assert torch.equal(unpack(packed), expected)
        return
    halves = [packed.scales] if kind == Kind.Q6_K else halves_of(packed.scales, torch.float16)
    factors = (32,) if kind == Kind.Q6_K else (15, 1)  # of the largest code, and of a minimum
    errors = [half.T.float().abs() * 2**-11 * by + by * 2**-25 for half, by in zip(halves, factors, strict=True)]
    bound = torch.stack(errors).sum(dim=0)
    assert ((unpack(packed) - expected).view(*bound.shape, -1).abs().amax(dim=-1) <= bound * 1.01).all()


@needs_library
@pytest.mark.parametrize("kind", KEPT)
def test_the_library_reads_the_same_bits(kind: Kind, tmp_path: Path) -> None:
    data, expected = blocks(kind), packed_of(blocks(kind), kind)
    path = tmp_path / "rows"
    path.write_bytes(bytes(7) + data.tobytes())
    for threads in (1, 2):
        found = empty(KEPT[kind].scheme, (40, 512)).part(slice(2, 39))  # rows of a larger matrix
        with path.open("rb", buffering=0) as file:
            assert read_in_c(file, 7, kind, found, threads)
        assert torch.equal(found.codes, expected.codes)
        assert torch.equal(found.scales.contiguous().view(torch.int16), expected.scales.contiguous().view(torch.int16))


@pytest.mark.parametrize("kind", KEPT)
def test_scales_that_are_not_finite_and_cut_rows_are_refused(kind: Kind, tmp_path: Path) -> None:
    data = blocks(kind)
    at = SCALES.get(kind, (0,))[-1]
    data[20, at : at + 2] = np.array([np.inf], np.float16).view(np.uint8)
    with pytest.raises(ValueError, match="not finite"):
        packed_of(data, kind)
    if native.library() is None:
        return
    path = tmp_path / "rows"
    path.write_bytes(data.tobytes())
    with path.open("rb", buffering=0) as file:
        with pytest.raises(ValueError, match="not finite"):
            read_in_c(file, 0, kind, empty(KEPT[kind].scheme, (37, 512)), 2)
        with pytest.raises(OSError, match="too short"):
            read_in_c(file, 1, kind, empty(KEPT[kind].scheme, (37, 512)), 2)
