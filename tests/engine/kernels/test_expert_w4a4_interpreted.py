"""Experts with activations in NVFP4, in Triton's interpreter, against plain torch.

The interpreter's ``dot_scaled`` has no scales in e4m3: ``interpreting.know_e4m3_scales`` stands in for them.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.checks.operands import packed, routing
from engine.checks.oracle import judge
from engine.checks.product_checks import experts_w4a4_check
from engine.kernels import expert_w4a4, reference
from engine.kernels.decode import split_pairs
from engine.kernels.table import AMPERE, BLACKWELL, CPU, find
from engine.quant import E2M1_VALUES, NVFP4

CPU_DEVICE = torch.device("cpu")


def values(codes: Tensor, scales: Tensor, wholes: Tensor) -> Tensor:
    """What quantised rows stand for, (N, in), in their usual order."""
    pairs = torch.tensor(E2M1_VALUES)[torch.stack([codes & 15, codes >> 4], dim=-1).long()]
    usual = pairs.view(len(codes), -1, 4, 2).transpose(-1, -2).reshape(len(codes), -1, 16)  # 0 4 1 5 2 6 3 7
    return (usual * scales.float()[..., None] * wholes[:, None, None]).flatten(1)


@pytest.mark.parametrize("is_split", [False, True])
def test_rows_are_quantised_as_matrices_of_their_own(is_split: bool) -> None:
    """Bit by bit; with groups of zeros, of numbers that e4m3 has as subnormal scales or none, and halves."""
    x = torch.randn(6, 192, generator=torch.Generator().manual_seed(1))
    x[0, 16:32] = 0.0
    x[1, 32:64] *= 1e-4
    x[2, :48] *= 1e-7
    x[3] = torch.arange(192) % 29 / 4 - 3.5
    x[4] = 0.0
    x[5, 7] = float("nan")
    found = values(*expert_w4a4.quantize_rows(split_pairs(x) if is_split else x, is_split))
    assert torch.equal(found[:5], reference.round_rows_nvfp4(x)[:5])
    assert found[5].isnan().all()
    assert reference.round_rows_nvfp4(x)[5].isnan().all()


@pytest.mark.parametrize(
    ("tokens", "number", "hidden", "width"),
    [(70, 3, 128, 64), (9, 4, 192, 192)],  # more pairs than a tile has; odd numbers of tiles of inputs and rows
)
def test_experts_match_the_reference(tokens: int, number: int, hidden: int, width: int) -> None:
    weights, chosen = routing(tokens, number, 2, CPU_DEVICE, seed=3)
    gate_up = packed(number, 2 * width, hidden, scheme=NVFP4, device=CPU_DEVICE, seed=1, matrices=2)
    down = packed(number, hidden, width, scheme=NVFP4, device=CPU_DEVICE, seed=2)
    x = torch.randn(tokens, hidden, generator=torch.Generator().manual_seed(4))
    verdict = judge(experts_w4a4_check(expert_w4a4.experts, x, weights, chosen, gate_up, down), repeats=1)
    assert verdict.ok, verdict.said


def test_only_cards_with_such_units_are_served() -> None:
    assert find("experts_w4a4", NVFP4, BLACKWELL) is expert_w4a4.experts
    for capability in (AMPERE, CPU):
        assert find("experts_w4a4", NVFP4, capability) is reference.experts_w4a4
