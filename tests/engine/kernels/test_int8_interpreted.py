"""Products with int8 activations against plain torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from engine.kernels import linear_w8a8, reference, vocabulary
from engine.kernels import reference_step as plain
from engine.kernels.reference_step import VocabularyResult
from engine.layers.packed_linear import PackedLinear, PackedWeight
from engine.quant import BF16, INT8, Activations, Packed, pack

BOTH = Activations(head=True, soft=True)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_rows(dtype: torch.dtype) -> None:
    """Halves go to even; groups of zeros, of very different size, and with numbers that are none."""
    x = noise(6, 300).to(dtype)
    x[0, 128:] *= 50
    x[1] = 0
    x[2] = torch.arange(300) % 70 - 12.5
    x[2, ::64] = -127
    x[3, 5], x[4, 290] = torch.inf, torch.nan
    codes, scales = linear_w8a8.quantize_rows(x)
    want, want_scales = reference.quantize_rows(x)
    torch.testing.assert_close(scales, want_scales, equal_nan=True)
    assert scales.isnan().nonzero().tolist() == [[0, 3], [2, 4]]
    finite = [0, 1, 2, 5]
    apart = (codes.int() - want.int()).abs()[finite]
    assert int(apart.max()) <= 1  # a half may go either way by its last bit
    assert float(apart.float().mean()) < 0.01
    assert codes[2, 1:5].tolist() == [-12, -10, -10, -8]
    assert [int(part.abs().max()) for part in codes[0].split(128)] == [127, 127, 127]
    step = scales.T[finite].repeat_interleave(128, dim=1)[:, :300]
    assert bool(((reference.round_rows(x)[finite] - x[finite].float()).abs() <= 0.51 * step).all())
    assert bool(((codes[finite] * step - x[finite].float()).abs() <= 0.51 * step).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
    ("tokens", "inputs", "rows", "splits"),
    [(1, 70, 200, None), (19, 330, 130, 2), (130, 128, 128, None), (20, 192, 129, 5)],
)
def test_linear(tokens: int, inputs: int, rows: int, splits: int | None, dtype: torch.dtype) -> None:
    """Odd sizes; splits that have several blocks, one, or none; tokens that int8 holds exactly, of different sizes."""
    codes = torch.randint(-127, 128, (tokens, inputs), generator=torch.Generator().manual_seed(0))
    codes[:, ::64] = 127  # in every group
    sizes = torch.arange(tokens)[:, None] % 5 - torch.arange(inputs) // 128 % 3  # a group's own
    x = (codes * 2.0 ** (sizes - 6)).to(dtype)
    weight = pack(noise(rows, inputs, seed=1), INT8)
    want = reference.linear(x.float(), weight)
    torch.testing.assert_close(reference.linear_int8(x.float(), weight), want, atol=1e-3, rtol=1e-5)
    for _ in range(2):  # the second time the counters are as the first left them
        found = linear_w8a8.linear_w8a8(x, weight, splits)
        assert found.dtype == dtype
        torch.testing.assert_close(found.float(), want, atol=1e-3, rtol=1e-5 if dtype == torch.float32 else 1e-3)


@pytest.mark.parametrize("splits", [1, 2])
def test_gated(splits: int) -> None:
    """Widths that are no multiple of a tile; inputs of two groups, so that two splits each have one."""
    x, weight = noise(19, 200), pack(noise(2 * 70, 200, seed=1), INT8)
    gate, up = reference.linear_int8(x, weight).chunk(2, dim=1)
    want = torch.nn.functional.gelu(gate, approximate="tanh") * up
    for _ in range(2):  # the second time the counters are as the first left them
        found = linear_w8a8.linear_w8a8(x, weight, splits, gated=True)
        torch.testing.assert_close(found, want, atol=1e-3, rtol=1e-5)


def test_linear_of_a_layer() -> None:
    """Leading dimensions and strides; the plain path rounds, too, and only where the layer was told to."""
    x, weight = noise(2, 3, 80), pack(noise(40, 64, seed=1), INT8)
    part = x[..., 8:72]
    found = linear_w8a8.linear_w8a8(part, weight)
    layer = PackedLinear(PackedWeight((40, 64), INT8, "a"), rounds=True)
    layer.weight.codes, layer.weight.scales = weight.codes, weight.scales
    torch.testing.assert_close(found, layer(part), atol=1e-5, rtol=1e-5)
    layer.rounds = False
    torch.testing.assert_close(layer(part), reference.linear(part, weight), atol=1e-5, rtol=1e-5)
    assert 1e-4 < float((found - layer(part)).norm() / found.norm()) < 0.02


def stage(way: Any, states: Tensor, table: Packed | Tensor, activations: Activations, **more: Any) -> VocabularyResult:
    draw = torch.tensor([(1 << 40) + 7, 3])
    knobs: dict[str, Any] = {"temperature": torch.tensor([0.7]), "draw": draw, "cap": 30.0, "embed_scale": 8.0}
    found: VocabularyResult = way(states, table, **knobs, activations=activations, **more)
    return found


@pytest.mark.parametrize(
    ("positions", "hidden", "vocabulary_size", "chunk_tiles", "splits", "activations"),
    [
        (17, 130, 520, 2, 2, BOTH),
        (3, 70, 257, 1, 3, Activations(head=True)),
        (3, 70, 257, 1, 3, Activations(soft=True)),
        (140, 128, 128, None, 1, BOTH),
    ],
)
def test_vocabulary_stage(
    positions: int, hidden: int, vocabulary_size: int, chunk_tiles: int | None, splits: int, activations: Activations
) -> None:
    draws = torch.Generator().manual_seed(positions)
    states = torch.randint(-120, 120, (positions, hidden), generator=draws) + 0.25  # never near a half
    states[:, ::64] = 127  # in every group
    states *= 2.0 ** (-6 - torch.arange(hidden) // 128)  # a group's own
    table = pack(noise(vocabulary_size, hidden, seed=1) * torch.logspace(-1, 0, vocabulary_size)[:, None], INT8)
    forbidden = torch.arange(vocabulary_size) % 3 == 1
    forbidden[128:256] = vocabulary_size > 256  # a whole tile
    pinned = torch.full((positions,), -1, dtype=torch.int32)
    pinned[1] = 7
    for more in ({}, {"forbidden": forbidden, "pinned": pinned}):
        cut = {"chunk_tiles": chunk_tiles, "splits": splits}
        mine = stage(vocabulary.vocabulary_stage, states, table, activations, **cut, **more)
        want = stage(plain.vocabulary_stage, states, table, activations, **more)
        assert torch.equal(mine.argmax, want.argmax)
        assert torch.equal(mine.candidate, want.candidate)
        torch.testing.assert_close(mine.entropy, want.entropy, atol=1e-5, rtol=0)
        torch.testing.assert_close(mine.logsumexp, want.logsumexp, atol=2e-5, rtol=0)
        torch.testing.assert_close(mine.soft, want.soft, atol=1e-4, rtol=1e-5)
        exact = stage(plain.vocabulary_stage, states, table, BF16, **more)
        off = float((mine.soft - exact.soft).norm() / exact.soft.norm())
        assert 1e-5 < off < 0.05
        assert torch.equal(mine.argmax, exact.argmax) or activations.head


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_says_when_hidden_states_are_not_finite() -> None:
    states, table = noise(5, 32), pack(noise(200, 32, seed=1), INT8)
    states[3, 4] = torch.nan
    assert int(stage(vocabulary.vocabulary_stage, states, table, BOTH).nonfinite) == 1
    assert int(stage(plain.vocabulary_stage, states, table, BOTH).nonfinite) == 1


def test_a_table_that_is_not_packed_is_taken_as_it_is() -> None:
    states, table = noise(4, 32), noise(200, 32, seed=1)
    for way in (vocabulary.vocabulary_stage, plain.vocabulary_stage):
        assert torch.equal(stage(way, states, table, BOTH).soft, stage(way, states, table, BF16).soft)
