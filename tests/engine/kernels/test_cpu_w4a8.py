"""The kernel in C for 4-bit experts: what it computes."""

from __future__ import annotations

import ctypes

import pytest
import torch
from torch import Tensor

from engine.config import Activation
from engine.kernels import cpu, cpu_w4a8
from engine.kernels.cpu_w4a8 import ACTIVATIONS
from engine.kernels.reference import activate
from engine.quant import INT4, INT4_G64, NF4, Packed, Scheme, pack, unpack
from tests.engine.kernels.blocks import DRAWS, choices, in_blocks, random

needs_kernel = pytest.mark.skipif(
    cpu_w4a8.block() == 0, reason="there is no C compiler here, or the processor is none that the kernel is for"
)


@pytest.mark.parametrize("scheme", [INT4, INT4_G64], ids=str)
def test_products_are_those_of_the_rounded_numbers(scheme: Scheme, library: ctypes.CDLL) -> None:
    block = int(library.native_block())
    assert cpu_w4a8.is_right(library)
    shapes = ((1, block, 64), (3, 3 * block, 192), (4, block, 512), (33, 2 * block, 128), (70, block, 64))
    for count, rows, inputs in shapes:
        tiles, x = pack(random(4, rows, inputs), scheme), random(count, inputs) * 10
        x[:, 5] *= 100  # one large number in a group
        weight, rounded = in_blocks(tiles, block), cpu_w4a8.rounded(x, scheme.group_size, library)
        found = cpu_w4a8.multiply(rounded, weight, 1, [count - 1, 0, 1], library)
        matrices = torch.tensor([1] * (count - 1) + [3])
        want = (unpack(tiles).double()[matrices] @ rounded.values.double()[..., None])[..., 0]
        torch.testing.assert_close(found.double(), want, rtol=1e-5, atol=1e-5 * float(want.abs().max()))
        alone = cpu_w4a8.Rounded(*(part[:1] for part in rounded))
        own = cpu_w4a8.multiply(alone, weight, int(matrices[0]), [1], library)
        assert torch.equal(own, found[:1])  # others change nothing


@needs_kernel
def test_numbers_are_rounded_by_half_a_step_of_their_group() -> None:
    x = random(5, 128).exp() * random(5, 128).sign()
    x[0, :32], x[1, 32:64], x[2, 3] = 0.0, 1e-44, torch.tensor(-3.4e38)
    found = cpu_w4a8.rounded(x, 32)
    steps = found.scales.repeat_interleave(32, dim=1)
    assert ((found.values - x).abs() <= 0.501 * steps + 1e-40).all()
    assert torch.equal(found.sums, found.codes.view(5, 4, 32).sum(-1).int())
    assert found.codes.view(20, 32).abs().amax(dim=1).tolist() == [0, *[127] * 4, 0, *[127] * 14]
    assert torch.equal(cpu_w4a8.rounded(x.bfloat16(), 32).codes, cpu_w4a8.rounded(x.bfloat16().float(), 32).codes)


@needs_kernel
@pytest.mark.parametrize("bad", [torch.inf, -torch.inf, torch.nan])
def test_a_row_that_is_not_finite_stays_so_and_harms_no_other(bad: float) -> None:
    x = random(6, 128)
    x[2, 70] = bad
    size = cpu_w4a8.block()
    stack = in_blocks(pack(random(2, size, 128), INT4), size)
    found = cpu_w4a8.multiply(cpu_w4a8.rounded(x, 32), stack, 0, [4, 2])
    assert not found[2].isfinite().any()
    assert found[[0, 1, 3, 4, 5]].isfinite().all()


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("scheme", [INT4, INT4_G64], ids=str)
def test_experts_round_what_they_read_and_what_they_widen_to(
    scheme: Scheme, activation: Activation, library: ctypes.CDLL
) -> None:
    size, group = int(library.native_block()), scheme.group_size
    gate_up, down = pack(random(7, 256, 192), scheme), pack(random(7, 192, 128), scheme)
    x, weights = random(90, 192).bfloat16(), torch.rand(90, 3, generator=DRAWS)
    chosen = choices(90, 3, 6)  # nobody chooses the last

    def run(rows: slice, threads: int) -> Tensor:
        stacks = in_blocks(gate_up, size), in_blocks(down, size)
        return cpu_w4a8.experts(x[rows], weights[rows], chosen[rows], *stacks, activation, threads, library)

    found, want = run(slice(None), 1), torch.zeros(90, 192)
    rounded = cpu_w4a8.rounded(x, group, library).values
    for row in range(90):
        for weight, expert in zip(weights[row], chosen[row].tolist(), strict=True):
            gate, up = (rounded[row] @ unpack(gate_up[expert]).T).chunk(2)
            inner = cpu_w4a8.rounded((activate(gate, activation) * up)[None], group, library).values[0]
            want[row] += weight * (inner @ unpack(down[expert]).T)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), want, rtol=8e-3, atol=4e-3 * float(want.abs().max()))
    assert torch.equal(run(slice(None), 3), found)
    assert torch.equal(run(slice(40, 43), 3), found[40:43])  # others change nothing
    assert run(slice(0), 2).shape == (0, 192)


@needs_kernel
def test_experts_in_its_blocks_go_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    size, ran = cpu_w4a8.block(), list[int]()
    real = cpu_w4a8.experts
    monkeypatch.setattr(cpu_w4a8, "experts", lambda *arguments: ran.append(1) or real(*arguments))
    x, chosen = random(4, 128).bfloat16(), torch.tensor([[0, 1]] * 4)
    gate_up, down = pack(random(2, 128, 128), INT4), pack(random(2, 128, 64), INT4)
    blocks = in_blocks(gate_up, size), in_blocks(down, size)
    for rows, weights, expected in ((x, blocks, 1), (x.float(), blocks, 1), (x, (gate_up, down), 1), (x, blocks, 2)):
        cpu.experts(rows, torch.ones(4, 2), chosen, *weights)
        assert len(ran) == expected


@needs_kernel
def test_it_serves_codes_in_its_blocks_alone() -> None:
    size, tiles = cpu_w4a8.block(), pack(random(128, 64), INT4)
    assert not cpu_w4a8.serves(tiles)
    assert cpu_w4a8.serves(in_blocks(tiles, size))
    assert not cpu_w4a8.serves(Packed(tiles.codes, tiles.scales, NF4, block=size))
    assert not cpu_w4a8.serves(Packed(tiles.codes, tiles.scales, INT4, block=128))


@needs_kernel
def test_one_that_is_wrong_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    real = cpu_w4a8.multiply
    monkeypatch.setattr(cpu_w4a8, "multiply", lambda *arguments: 1.01 * real(*arguments))
    assert cpu_w4a8.block.__wrapped__() == 0
