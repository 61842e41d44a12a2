"""The kernel in C for int8 rows and many rows of bf16."""

from __future__ import annotations

import pytest
import torch

from engine.kernels import cpu, cpu_int8
from engine.quant import INT8, NF4, Packed, pack, unpack
from tests.engine.kernels.blocks import random

needs_units = pytest.mark.skipif(
    not cpu_int8.multiplies_many(), reason="there is no C compiler here, or the processor has no matrix units"
)


@needs_units
@pytest.mark.parametrize("rows", [1, 5, 16, 33, 290])  # parts of tiles, and more than are multiplied at once
@pytest.mark.parametrize("inputs", [32, 256, 288, 544])  # less and more than are decoded at once
def test_the_result_is_rounded_once(rows: int, inputs: int) -> None:
    weight, x = pack(random(96, inputs), INT8), random(rows, inputs).bfloat16()
    found = cpu_int8.multiply_many(x, weight, 2)
    want = x.double() @ unpack(weight).double().T
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), want, rtol=2**-8, atol=1e-5 * float(want.abs().max()))
    assert torch.equal(found, cpu_int8.multiply_many(x, weight, 1))
    assert torch.equal(found[-1:], cpu_int8.multiply_many(x[-1:].contiguous(), weight, 1))  # others change nothing


@needs_units
def test_a_row_that_is_not_finite_harms_no_other() -> None:
    weight, x = pack(random(32, 64), INT8), random(20, 64).bfloat16()
    want, x[3, 5] = cpu_int8.multiply_many(x, weight, 1), torch.nan
    found = cpu_int8.multiply_many(x, weight, 1)
    assert found[3].isnan().all()
    assert torch.equal(found[:3], want[:3])
    assert torch.equal(found[4:], want[4:])


@needs_units
def test_it_serves_bf16_and_whole_tiles() -> None:
    weight, x = pack(random(64, 64), INT8), random(7, 64).bfloat16()
    assert cpu_int8.takes_many(x, weight)
    assert not cpu_int8.takes_many(x.float(), weight)
    assert not cpu_int8.takes_many(x[:0], weight)
    assert not cpu_int8.takes_many(x, pack(random(48, 64), INT8))
    assert not cpu_int8.takes_many(x, pack(random(64, 64), NF4))
    assert not cpu_int8.takes_many(x, Packed(weight.codes.T.contiguous().T, weight.scales, INT8))
    assert torch.equal(cpu.linear(x[None], weight)[0], cpu_int8.multiply_many(x, weight, 1))
    assert torch.equal(cpu.linear(x.T.contiguous().T, weight), cpu_int8.multiply_many(x, weight, 1))
