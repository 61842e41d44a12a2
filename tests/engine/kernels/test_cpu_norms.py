"""Norms of bf16 in C, against torch's in fp32."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.kernels import cpu_norms, native
from engine.kernels.reference_step import rotate
from engine.layers.attention import normed_heads
from engine.layers.norm import RMSNorm
from engine.layers.rope import cos_sin
from tests.engine.kernels import blocks

needs_kernel = pytest.mark.skipif(
    native.library() is None, reason="there is no C compiler here, or the processor is none that the kernel is for"
)
STEP = 2**-7  # of bf16, relative to its power of two


def random(*shape: int) -> Tensor:
    return blocks.random(*shape).bfloat16()


def norm_of(size: int, factors: torch.dtype | None) -> RMSNorm:
    norm = RMSNorm(size, 1e-6, with_scale=factors is not None)
    if norm.weight is not None:
        norm.weight.data = random(size).to(factors)
    return norm.requires_grad_(False)


def wide_norm(norm: RMSNorm, x: Tensor) -> Tensor:
    wide = x.double()
    normed = wide / (wide.square().mean(-1, keepdim=True) + norm.eps).sqrt()
    return normed if norm.weight is None else normed * norm.weight.double()


@needs_kernel
@pytest.mark.parametrize("factors", [None, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [32, 96, 2816])
@torch.inference_mode()
def test_a_norm_is_rounded_once(size: int, factors: torch.dtype | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_norms, "LEAST_WORK", 3 * size)
    norm, x = norm_of(size, factors), random(3, 7, size) * 5
    x[0, 0] = 0
    want = wide_norm(norm, x)
    assert cpu_norms.serves(x, size)
    for rows, expected in ((x, want), (x[:, ::2], want[:, ::2]), (x[:1, :1], want[:1, :1]), (x[:0], want[:0])):
        found = norm(rows)
        assert (found.shape, found.dtype) == (rows.shape, torch.bfloat16)
        torch.testing.assert_close(found.double(), expected, rtol=STEP / 2 * 1.001, atol=0)
    x[1, 2, 3] = torch.inf
    assert norm(x)[1, 2].isnan().any()
    assert norm(x)[0].isfinite().all()


@needs_kernel
@torch.inference_mode()
def test_a_sum_behind_a_norm_is_rounded_with_it() -> None:
    norm, x, added = norm_of(96, torch.bfloat16), random(2, 5, 96), random(2, 5, 96)
    assert norm.factors is norm.weight
    for times in (None, torch.tensor([0.25], dtype=torch.bfloat16)):
        want = (wide_norm(norm, x) + added.double()) * (1 if times is None else 0.25)
        for rest in (added, added.transpose(0, 1).contiguous().transpose(0, 1)):
            found = norm.plus(x, rest, times)
            torch.testing.assert_close(found.double(), want, rtol=STEP / 2 * 1.001, atol=1e-6)
    wide = norm.float().plus(x.float(), added.float(), torch.tensor([0.25]))  # of 32 bits, by torch
    torch.testing.assert_close(wide.double(), (wide_norm(norm, x) + added.double()) * 0.25, rtol=1e-5, atol=1e-6)


@needs_kernel
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("is_rotated", [True, False])
@torch.inference_mode()
def test_heads_are_rotated_in_the_same_pass(heads: int, is_rotated: bool) -> None:
    norm, x = norm_of(64, torch.bfloat16), random(1, 9, heads * 64 + 32)[..., : heads * 64]  # rows have a stride
    tables = cos_sin(torch.arange(9) + 100, torch.rand(32, generator=blocks.DRAWS), torch.bfloat16)
    rope = tables if is_rotated else None
    found = normed_heads(norm, x, 64, rope)
    want = wide_norm(norm, x.unflatten(-1, (heads, 64)).transpose(1, 2))
    want = rotate(want, *(part.double() for part in tables)) if is_rotated else want
    assert found.is_contiguous()
    size = want.unflatten(-1, (2, 32)).norm(dim=-2).repeat(1, 1, 1, 2)  # of a pair: rotation may cancel
    assert ((found.double() - want).abs() <= STEP / 2 * want.abs() + 1e-6 * size).all()


@needs_kernel
@torch.inference_mode()
def test_others_are_left_to_torch() -> None:
    x = random(2, 64)
    assert cpu_norms.serves(x, 64)
    assert not cpu_norms.serves(x.float(), 64)
    assert not cpu_norms.serves(random(2, 48), 48)
    assert not cpu_norms.serves(x.T, 2)
    assert not cpu_norms.rotates((x, x), 2, 32)
    assert not cpu_norms.rotates((x.float(), x.float()), 2, 64)
    with torch.inference_mode(False), torch.enable_grad():
        assert not cpu_norms.serves(x, 64)
