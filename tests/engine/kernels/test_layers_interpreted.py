"""Linear layers, attention and norms against plain torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from triton.runtime import interpreter

from engine.kernels import attention, linear_w8a16, norms, reference
from engine.kernels import reference_step as plain
from engine.kernels.decode import split_pairs
from engine.kernels.linear_w8a16 import Cut
from engine.kernels.reference_step import rotate
from engine.layers.norm import RMSNorm
from engine.layers.rope import cos_sin
from engine.quant import INT8, pack

EPS = 1e-6


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
    ("tokens", "inputs", "rows", "cut", "gated"),
    [
        (1, 70, 200, None, False),
        (19, 330, 130, Cut(2), False),
        (130, 64, 128, None, False),
        (20, 130, 129, Cut(5), False),
        (140, 330, 130, Cut(programs=3), False),  # eight blocks each: a tile's end, and more than half of the next
        (20, 330, 400, Cut(programs=7), False),  # four of them: a tile has two or three programs
        (20, 330, 130, Cut(programs=9), False),  # two: tiles of six have three programs; some have none
        (20, 130, 400, Cut(programs=3), False),  # four of twelve: a whole tile among the parts
        (1, 70, 200, None, True),
        (19, 330, 260, Cut(2), True),
        (130, 64, 128, None, True),
        (20, 130, 130, Cut(programs=4), True),
    ],
)
def test_linear(tokens: int, inputs: int, rows: int, cut: Cut | None, gated: bool, dtype: torch.dtype) -> None:
    """Odd sizes; splits that have several blocks, one, or none; tiles shared evenly; gates, ups and their product."""
    x, weight = noise(tokens, inputs).to(dtype), pack(noise(rows, inputs, seed=1), INT8)
    want, rtol = reference.linear(x.float(), weight), 1e-5 if dtype == torch.float32 else 1e-3
    if gated:
        weight = pack(noise(rows, inputs, seed=1) * inputs**-0.5, INT8)
        gate, up = reference.linear(x.float(), weight).chunk(2, dim=-1)
        want, rtol = functional.gelu(gate, approximate="tanh") * up, 1e-4 if dtype == torch.float32 else 2e-3
    for _ in range(2):  # the second time the counters are as the first left them
        found = linear_w8a16.linear_w8a16(x, weight, cut, gated=gated)
        assert found.dtype == dtype
        torch.testing.assert_close(found.float(), want, atol=1e-4, rtol=rtol)


@pytest.mark.parametrize("cut", [Cut(3), Cut(programs=3), Cut(programs=7)])
def test_the_order_in_which_programs_finish_changes_nothing(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one first, so that a program has gone on to its next tile when the tile before is added up."""
    x, weight = noise(20, 330), pack(noise(400, 330, seed=1), INT8)
    wanted = linear_w8a16.linear_w8a16(x, weight, cut)
    builder = interpreter.interpreter_builder
    plainly = builder.set_grid_idx
    monkeypatch.setattr(builder, "set_grid_idx", lambda x, y, z: plainly(builder.grid_dim[0] - 1 - x, y, z))
    assert torch.equal(linear_w8a16.linear_w8a16(x, weight, cut), wanted)


def test_linear_takes_leading_dimensions_and_strides() -> None:
    x, weight = noise(2, 3, 80)[..., 8:72], pack(noise(40, 64, seed=1), INT8)
    found = linear_w8a16.linear_w8a16(x, weight)
    torch.testing.assert_close(found, reference.linear(x, weight), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "count", "size", "first", "end", "text_rows", "window", "splits"),
    [
        (4, 2, 20, 32, 0, 20, 0, None, 1),  # nothing before the canvas
        (4, 2, 20, 32, 7, 97, 0, None, 3),  # a prefix longer than its window
        (2, 1, 70, 32, 3, 150, 0, 50, 2),  # all heads on one; a window is nothing to a canvas
        (2, 1, 70, 64, 0, 150, 70, None, 2),  # nothing but text
        (1, 1, 70, 32, 0, 290, 70, 50, 1),
        (1, 1, 130, 32, 112, 290, 130, 50, 4),
        (2, 1, 140, 32, 0, 290, 70, None, 2),  # both, some of each in one block of queries
        (2, 1, 140, 32, 141, 290, 70, 80, 1),  # text looks further back than the canvas
        (1, 1, 256, 32, 78, 350, 128, 50, 3),  # a block of queries for each
        (2, 2, 20, 32, 3, 20, 10, 8, 2),  # a window from the buffer's first place on
        (2, 1, 3, 512, 2, 40, 0, None, 2),
        (2, 1, 5, 512, 0, 6, 5, None, 5),  # splits without a key
    ],
)
def test_attention(
    heads: int,
    kv_heads: int,
    count: int,
    size: int,
    first: int,
    end: int,
    text_rows: int,
    window: int | None,
    splits: int,
) -> None:
    queries, keys = noise(heads, count, size), noise(kv_heads, end + 9, size, seed=1) * 0.3
    values = noise(kv_heads, end + 9, size, seed=2)
    lowest = first if window is None or not text_rows else min(first, max(0, end - count - window + 1))
    for buffer in (keys, values):  # whatever lies outside is not looked at
        buffer[:, end:] = torch.nan
        buffer[:, :lowest] = torch.nan
    span = torch.tensor([first, end], dtype=torch.int32)
    found = attention.attention(queries, keys, values, span, text_rows, window, splits=splits)
    want = plain.attention(queries, keys, values, span, text_rows, window)
    torch.testing.assert_close(found, want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("text_rows", "splits"), [(0, 2), (13, 1), (21, 2)])
def test_attention_in_blocks_of_columns(text_rows: int, splits: int) -> None:
    """Cut as for large shared memory, where a program sums up some of the values' columns."""
    queries, keys, values = noise(2, 21, 32), noise(1, 90, 32, seed=1) * 0.3, noise(1, 90, 32, seed=2)
    span, blocks = torch.tensor([11, 80], dtype=torch.int32), attention.AttentionBlocks(32, 32, 8, 2, 16)
    found = attention.attention(queries, keys, values, span, text_rows, splits=splits, blocks=blocks)
    torch.testing.assert_close(found, plain.attention(queries, keys, values, span, text_rows), atol=1e-5, rtol=1e-5)


def test_text_and_a_canvas_are_what_each_is_alone() -> None:
    """The oracle, too: text in a pass of its own, then the canvas behind it."""
    text, canvas, end, window, first = 30, 20, 150, 40, 91
    queries, keys, values = noise(2, text + canvas, 32), noise(1, end, 32, seed=1) * 0.3, noise(1, end, 32, seed=2)

    def span(*bounds: int) -> Tensor:
        return torch.tensor(bounds, dtype=torch.int32)

    for attend in (attention.attention, plain.attention):
        both = attend(queries, keys, values, span(first, end), text, window)
        alone = attend(queries[:, :text].contiguous(), keys, values, span(0, end - canvas), text, window)
        behind = attend(queries[:, text:].contiguous(), keys, values, span(first, end))
        torch.testing.assert_close(both, torch.cat([alone, behind]), atol=1e-5, rtol=1e-5)


def test_attention_with_a_sure_head() -> None:
    """Scores of thousands, as unscaled attention has them."""
    queries, keys, values = noise(1, 20, 64) * 40, noise(1, 90, 64, seed=1) * 40, noise(1, 90, 64, seed=2)
    span = torch.tensor([0, 90], dtype=torch.int32)
    found = attention.attention(queries, keys, values, span, splits=2)
    torch.testing.assert_close(found, plain.attention(queries, keys, values, span), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("size", "split"), [(70, False), (96, True), (192, True)])
def test_norms_of_a_sum(size: int, split: bool, dtype: torch.dtype) -> None:
    x, y, weights = (noise(*shape, size, seed=seed).to(dtype) for seed, shape in enumerate([(5,), (5,), (4,)]))
    total, normed = norms.add_norm(x, y, weights[0], weights[1:], EPS, split)
    want, plainly = plain.add_norm(x, y, weights[0], weights[1:], EPS)
    torch.testing.assert_close(total, want)
    torch.testing.assert_close(normed[:2], plainly[:2])
    torch.testing.assert_close(normed[2], split_pairs(plainly[2]) if split else plainly[2])


def test_a_norm_alone() -> None:
    x, weight = noise(5, 70), noise(70, seed=1)
    torch.testing.assert_close(norms.norm(x, weight, EPS), plain.norm(x, weight, EPS))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("text_rows", "parts"), [(0, 1), (2, 3), (2, 8), (5, 2)])
def test_norms_at_a_layer_s_end(text_rows: int, parts: int, dtype: torch.dtype) -> None:
    """One output of the experts for a token, and several that are to be added up."""
    x, dense = (noise(5, 70, seed=seed).to(dtype) for seed in range(2))
    sparse = noise(5 * parts, 70, seed=2).to(dtype)
    weights, scalars = noise(4, 70, seed=3).to(dtype), torch.tensor([0.3, 1.7], dtype=dtype)
    found = norms.merge_norm(x, dense, sparse, weights, scalars, text_rows, EPS)
    torch.testing.assert_close(found, plain.merge_norm(x, dense, sparse, weights, scalars, text_rows, EPS))
    for rows, scalar in ((range(text_rows), scalars[0]), (range(text_rows, 5), scalars[1])):
        if not rows:
            continue
        own = sparse.view(5, parts, 70)[list(rows)].flatten(0, 1)
        alone = plain.merge_norm(x[list(rows)], dense[list(rows)], own, weights, scalar.expand(2), 0, EPS)
        torch.testing.assert_close(found[0][list(rows)], alone[0])


@pytest.mark.parametrize("shared", [False, True])
def test_heads(shared: bool) -> None:
    """Against the layers, too; ``shared``: values are the raw keys, as in full-attention layers."""
    tokens, heads, kv_heads, size, capacity, start = 5, 4, 2, 32, 20, 9
    projected = noise(tokens, (heads + 2 * kv_heads) * size)
    queries, keys, values = projected.split([heads * size, kv_heads * size, kv_heads * size], dim=1)
    if shared:
        values = keys
    weights = noise(size, seed=1), noise(size, seed=2)
    rope = cos_sin(torch.arange(7, 7 + tokens), torch.rand(size // 2), torch.float32)
    found = []
    for kind in (norms, plain):
        buffers = torch.zeros(kv_heads, capacity, size), torch.zeros(kv_heads, capacity, size)
        turned = kind.head_norm_rope(queries, keys, values, weights, rope, buffers, torch.tensor([start + tokens]), EPS)
        found.append((turned, *buffers))
    torch.testing.assert_close(found[0], found[1])
    layer = RMSNorm(size, EPS)
    layer.weight.data = weights[0]
    heads_first = queries.reshape(tokens, heads, size).transpose(0, 1)
    torch.testing.assert_close(found[0][0], rotate(layer(heads_first), *rope))
