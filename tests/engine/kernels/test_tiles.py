"""The matrix units: their sums are those of vectors, bit for bit."""

from __future__ import annotations

import ctypes

import pytest
import torch
from torch import Tensor

from engine.kernels import cpu_w4a8, native
from engine.kernels.native import matrices
from engine.quant import INT4, INT4_G64, UINT4, Packed, Scheme
from tests.engine.kernels.blocks import DRAWS, choices, random

COUNTS = (1, 3, 4, 5, 9, 13, 16, 17, 33, 64)  # rows: fewer than tiles take, of one tile, and of several


@pytest.fixture
def both() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    vectors, tiles = native.load("avx512"), native.load("amx")
    if vectors is None or tiles is None:
        pytest.skip("there is no C compiler here, or the processor has no matrix units")
    return vectors, tiles


def codes_of(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=DRAWS)


@pytest.mark.parametrize("scheme", [INT4, INT4_G64], ids=str)
@pytest.mark.parametrize("inputs", [64, 320, 704])  # parts of a chunk of inputs, one and a part, several
def test_rounded_rows(scheme: Scheme, inputs: int, both: tuple[ctypes.CDLL, ctypes.CDLL]) -> None:
    vectors, tiles = both
    scales = torch.rand(2, inputs // scheme.group_size, 128, generator=DRAWS).bfloat16()
    stack = Packed(codes_of(2, 128, inputs // 2), scales, scheme, block=64)
    for count in COUNTS:
        x = cpu_w4a8.rounded(random(count + 5, inputs) * 9, scheme.group_size, vectors)
        want = cpu_w4a8.multiply(x, stack, 0, [5, count], vectors)
        assert torch.equal(cpu_w4a8.multiply(x, stack, 0, [5, count], tiles), want)


@pytest.mark.parametrize("scheme", [INT4, UINT4], ids=str)
def test_rows_of_sixteen_bits(scheme: Scheme, both: tuple[ctypes.CDLL, ctypes.CDLL]) -> None:
    scales = random(10, 192, 1 + (scheme == UINT4)).bfloat16()
    scales = scales.view(torch.int32)[..., 0] if scheme == UINT4 else scales[..., 0]
    weight = Packed(codes_of(192, 160), scales, scheme, block=64)
    for count in COUNTS:
        x = random(count, 320)
        found = [matrices.multiply(x, weight, library) for library in both]
        assert torch.equal(*found)
        assert found[0].abs().sum() > 0


def test_experts(both: tuple[ctypes.CDLL, ctypes.CDLL]) -> None:
    def stack(rows: int, inputs: int) -> Packed:
        scales = torch.rand(6, inputs // 32, rows, generator=DRAWS).bfloat16()
        return Packed(codes_of(6, rows, inputs // 2), scales, INT4, block=64)

    gate_up, down, x = stack(256, 192), stack(192, 128), random(60, 192).bfloat16()
    weights = torch.rand(60, 2, generator=DRAWS)
    chosen = choices(60, 2, 6)
    found = [cpu_w4a8.experts(x, weights, chosen, gate_up, down, "silu", 2, library) for library in both]
    assert torch.equal(*found)
