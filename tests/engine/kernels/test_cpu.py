"""A CPU's ways with packed weights against the oracle in fp32, and what they hold at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.kernels import cpu, cpu_vocabulary, reference, reference_sampling
from engine.weights.quantize import INT4, INT4_G64, INT8, NF4, Packed, Scheme, pack

SCHEMES = [NF4, INT4, INT4_G64, INT8]
BOUNDS = {torch.float32: 2e-6, torch.bfloat16: 8e-3}  # relative, of the norm
DRAWS = torch.Generator()


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    DRAWS.manual_seed(0)
    monkeypatch.setattr(cpu, "has_bf16_units", lambda: True)


def random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=DRAWS)


def relative(found: Tensor, expected: Tensor) -> float:
    return float((found.float() - expected).norm() / expected.norm())


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_linear_agrees_with_the_oracle(scheme: Scheme, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "AT_ONCE", 20 * 192)  # pieces of 20 rows, decoded by 7
    monkeypatch.setattr(cpu, "DECODED", 7 * 192)
    weight, x = pack(random(75, 192), scheme), random(2, 3, 192).to(dtype)
    found = cpu.linear(x, weight)
    assert found.dtype == dtype
    assert found.shape == (2, 3, 75)
    assert relative(found, reference.linear(x.float(), weight)) < BOUNDS[dtype]


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_experts_agree_with_the_oracle(scheme: Scheme, dtype: torch.dtype) -> None:
    gate_up, down = pack(random(7, 128, 192), scheme), pack(random(7, 192, 64), scheme)
    x, weights = random(9, 192).to(dtype), torch.rand(9, 3, generator=DRAWS)
    chosen = torch.stack([torch.randperm(6, generator=DRAWS)[:3] for _ in range(9)])  # the seventh has nothing to do
    found = cpu.experts(x, weights, chosen, gate_up, down)
    assert found.dtype == dtype
    assert relative(found, reference.experts(x.float(), weights, chosen, gate_up, down)) < BOUNDS[dtype]


def test_without_bf16_units_bf16_is_multiplied_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "has_bf16_units", lambda: False)
    weight, x = pack(random(75, 192), INT4), random(3, 192).bfloat16()
    exact = reference.linear(x.float(), weight)
    assert torch.equal(cpu.linear(x, weight), exact.bfloat16()) or relative(cpu.linear(x, weight), exact) < 2e-3


@pytest.mark.parametrize("dtype", BOUNDS)
def test_expectation_agrees_with_the_oracle(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "AT_ONCE", 20 * 64)
    table, p = pack(random(75, 64), INT8), torch.rand(2, 3, 75, generator=DRAWS).to(dtype)
    assert relative(cpu.expectation(p, table), reference.expectation(p.float(), table)) < BOUNDS[dtype]


@pytest.mark.parametrize(("text_rows", "window"), [(0, None), (0, 8), (5, None), (5, 8), (5, 100)])
def test_attention_agrees_with_the_oracle(text_rows: int, window: int | None) -> None:
    queries, keys, values = random(4, 12, 16), random(2, 60, 16), random(2, 60, 16)
    end = 40
    first = 0 if window is None else max(0, end - 12 + text_rows - (window - 1))
    span = torch.tensor([first, end], dtype=torch.int32)
    found = cpu.attention(queries, keys, values, span, text_rows, window)
    expected = reference_sampling.attention(queries, keys, values, span, text_rows, window)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("case", ["plain", "banned", "pinned"])
@pytest.mark.parametrize("dtype", BOUNDS)
def test_the_vocabulary_by_pieces_is_the_whole(dtype: torch.dtype, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four pieces, the last one short; one of them may be banned altogether, at the beginning or behind it."""
    monkeypatch.setattr(cpu_vocabulary, "PIECE", 256)
    table, hidden = pack(random(900, 64), INT8), (3 * random(17, 64)).to(dtype)
    forbidden = pinned = None
    if case == "banned":
        forbidden = torch.zeros(900, dtype=torch.bool)
        forbidden[:256] = forbidden[600:700] = True
    if case == "pinned":
        pinned = torch.full((17,), -1, dtype=torch.int32)
        pinned[3], pinned[9] = 700, 2
    settings: dict[str, Any] = {
        "temperature": torch.tensor([0.7]),
        "draw": torch.tensor([5, 2]),
        "cap": 30.0,
        "embed_scale": 8.0,
        "forbidden": forbidden,
        "pinned": pinned,
    }
    found = cpu_vocabulary.vocabulary_stage(hidden, table, **settings)
    expected = reference_sampling.vocabulary_stage(hidden, table, **settings)
    assert found.soft.dtype == dtype
    assert relative(found.soft, expected.soft.float()) < max(1e-5, 2 * BOUNDS[dtype])
    atol = 1e-4 if dtype == torch.float32 else 0.1  # in bf16 a logit is rounded, as the plain path does
    torch.testing.assert_close(found.entropy, expected.entropy, atol=atol, rtol=0)
    torch.testing.assert_close(found.logsumexp, expected.logsumexp, atol=atol, rtol=0)
    assert int(found.nonfinite) == int(expected.nonfinite) == 0
    if dtype == torch.float32:
        assert torch.equal(found.argmax, expected.argmax)
        assert torch.equal(found.candidate, expected.candidate)
    else:
        assert (found.argmax == expected.argmax).float().mean() > 0.8
    if forbidden is not None:
        assert not forbidden[found.candidate].any()


def test_logits_that_are_no_numbers_are_told() -> None:
    table = pack(random(300, 64), INT8)
    hidden = random(4, 64)
    hidden[2, 5] = torch.nan
    found = cpu_vocabulary.vocabulary_stage(
        hidden, table, temperature=torch.ones(1), draw=torch.zeros(2).long(), cap=30.0, embed_scale=1.0
    )
    assert int(found.nonfinite) == 1


class LargestTensor(TorchDispatchMode):
    """The bytes of the largest memory that any operation gives back, weights apart."""

    def __init__(self, *weights: Packed) -> None:
        super().__init__()
        given = [part for weight in weights for part in (weight.codes, weight.scales)]
        self.known, self.most = {part.untyped_storage().data_ptr() for part in given}, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        made = [leaf.untyped_storage() for leaf in tree_leaves(found) if isinstance(leaf, Tensor)]
        self.most = max([self.most, *(memory.nbytes() for memory in made if memory.data_ptr() not in self.known)])
        return found


@pytest.mark.parametrize("scheme", [NF4, INT4], ids=str)
def test_no_more_than_a_piece_is_unpacked_at_once(scheme: Scheme, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a stack of experts nor a whole matrix nor logits over the vocabulary."""
    monkeypatch.setattr(cpu, "AT_ONCE", 16 * 1024)
    monkeypatch.setattr(cpu, "DECODED", 4 * 1024)
    monkeypatch.setattr(cpu_vocabulary, "PIECE", 128)
    widen, narrow = (
        Packed(
            torch.randint(0, 256, (8, rows, 128), dtype=torch.uint8, generator=DRAWS),
            torch.ones(8, 256 // scheme.group_size, rows).bfloat16(),
            scheme,
        )
        for rows in (512, 256)
    )
    x, chosen = torch.ones(4, 256).bfloat16(), torch.arange(8).view(4, 2)
    with LargestTensor(widen, narrow) as seen:
        cpu.experts(x, torch.ones(4, 2), chosen, widen, narrow)
    assert seen.most <= 16 * 1024 * 2
    table = pack(random(4096, 64), INT8)
    with LargestTensor(table) as seen:
        cpu.linear(x[:, :64], table)
        cpu_vocabulary.vocabulary_stage(
            x[:, :64], table, temperature=torch.ones(1), draw=torch.zeros(2).long(), cap=30.0, embed_scale=1.0
        )
    assert seen.most <= 4 * 4096 * 4
