"""Checks of the kernels between the products of a step against their oracles, at a model's shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from engine.checks import end_checks, layer_checks
from engine.checks.fused_checks import head_norms_check
from engine.checks.operands import draws, packed
from engine.checks.oracle import OracleCheck
from engine.config import ACCEPTANCE, GenerationConfig, LayerConfig
from engine.doctor.shapes import CheckShape, kind
from engine.kernels import attention, inputs, norms, router, settle
from engine.kernels.reference_step import VocabularyResult
from engine.layers.rope import inverse_frequencies
from engine.quant import INT8

Named = tuple[str, Callable[[], OracleCheck]]
MOST_ROWS = 32_768  # of the table for row look-ups


def norms_of(shape: CheckShape) -> Iterator[Named]:
    """Yields checks of norms, and of head norms with rotation."""
    hidden, tokens = shape.config.hidden_size, 2 * shape.canvas
    many = partial(shape.normal, tokens, hidden)

    def alone() -> OracleCheck:
        return layer_checks.norm_check(norms.norm, many(seed=0), shape.normal(hidden, seed=4))

    def add(split: bool) -> OracleCheck:
        def run(x: Tensor, y: Tensor, post: Tensor, pre: Tensor, eps: float) -> tuple[Tensor, Tensor]:
            total, normed = norms.add_norm(x, y, post, pre, eps, split)
            if split:  # of 32 numbers, the even ones come before the odd ones
                normed[-1] = normed[-1].view(tokens, -1, 2, 16).transpose(-1, -2).reshape(tokens, hidden)
            return total, normed

        weights = shape.normal(hidden, seed=4), shape.normal(3, hidden, seed=5)
        return layer_checks.add_norm_check(run, many(seed=0), many(seed=1), *weights)

    def merge(text: int) -> OracleCheck:
        weights, scalars = shape.normal(4, hidden, seed=6), torch.tensor([0.7, -1.3]).to(shape.device, shape.dtype)
        sparse = shape.normal(tokens * shape.config.top_k_experts, hidden, seed=2)
        return layer_checks.merge_norm_check(
            norms.merge_norm, many(seed=0), many(seed=1), sparse, weights, scalars, text
        )

    def rope(layer: LayerConfig) -> OracleCheck:
        heads = shape.config.num_attention_heads
        return head_norms_check(heads, layer, shape.canvas, shape.device, shape.dtype)

    yield "norm", alone
    yield "add_norm, one in pairs", partial(add, True)
    yield "add_norm", partial(add, False)
    for text in (0, shape.canvas):
        yield f"merge_norm, {text} of text", partial(merge, text)
    for layer in shape.kinds():
        yield f"head_norm_rope {kind(layer)}", partial(rope, layer)


def ends_of(shape: CheckShape) -> Iterator[Named]:
    """Yields checks of the kernels before and after the layers' products."""
    config, device = shape.config, shape.device
    hidden, tokens = config.hidden_size, 2 * shape.canvas

    def route(tokens: int) -> OracleCheck:
        experts = config.num_experts
        weight = shape.normal(experts, hidden, seed=1, scale=2 * hidden**-0.5)
        scales = shape.normal(experts, seed=2).exp()
        return end_checks.router_check(
            router.route, shape.normal(tokens, hidden, seed=3), weight, scales, config.top_k_experts
        )

    def embed() -> OracleCheck:
        rows = min(config.vocab_size, MOST_ROWS)
        ids = torch.randint(rows, (tokens,), generator=draws(device, 4), device=device)
        table = packed(rows, hidden, scheme=INT8, device=device, seed=5)
        fed = shape.normal(shape.canvas, hidden, seed=6)
        return end_checks.embed_rows_check(inputs.embed_rows, ids, table, fed, shape.canvas)

    def rope(layer: LayerConfig, start: int) -> OracleCheck:
        frequencies = inverse_frequencies(layer).to(device)
        return end_checks.rope_check(inputs.rope_tables, frequencies, start, shape.canvas, shape.dtype)

    def end(acceptance: str, same: bool) -> OracleCheck:
        count, vocabulary = shape.canvas, config.vocab_size
        best, drawn, noise, canvas = (
            torch.randint(vocabulary, (count,), generator=draws(device, seed), device=device) for seed in (1, 2, 3, 5)
        )
        entropy = torch.rand(count, generator=draws(device, 4), device=device)
        kept = torch.arange(count, device=device) % 3 == 0
        pinned = torch.where(torch.arange(count, device=device) % 6 == 0, canvas, -1).int()
        none = torch.zeros(1, dtype=torch.int32, device=device)
        found = VocabularyResult(best, drawn, entropy, entropy.roll(7), entropy, entropy, none)
        settings = GenerationConfig(
            acceptance=acceptance,
            max_denoising_steps=8,
            entropy_bound=float(entropy.sum()) / 8,
            confidence_threshold=100.0,
        )
        before = end_checks.Unsettled(canvas, kept, pinned, best if same else drawn, noise)
        return end_checks.settle_check(_settled, found, before, settings)

    for count in (shape.canvas, tokens, 1):
        yield f"router, {count} tokens", partial(route, count)
    yield "embed_rows", embed
    for layer in shape.kinds():
        for start in (3, 200_000):
            yield f"rope_tables {kind(layer)}, from {start}", partial(rope, layer, start)
    for acceptance in ACCEPTANCE:
        for same in (False, True):
            yield f"settle by {acceptance}, argmax {'as before' if same else 'changed'}", partial(end, acceptance, same)


def _settled(found: VocabularyResult, before: end_checks.Unsettled, knobs: Tensor) -> tuple[Tensor, ...]:
    """Returns the results of ``settle``: tokens, canvas, kept places, and all flags and counters."""
    count, device = len(before.noise), before.noise.device
    tokens = torch.zeros(4, count, dtype=torch.long, device=device)
    canvas, kept, previous = before.canvas.clone(), before.kept.clone(), before.previous.clone()
    unchanged, step = (torch.zeros(1, dtype=torch.long, device=device) for _ in range(2))
    flags = torch.full((2,), 7, dtype=torch.int32, device=device)
    draw = torch.tensor([11, 30], device=device)
    unchanged += 2
    step += end_checks.STEP
    entropy = torch.zeros(count, device=device)
    buffers = settle.Buffers(tokens, entropy, flags, canvas, kept, previous, unchanged, step, draw)
    settle.settle(found, before.noise, before.pinned, knobs, buffers)
    return tokens, canvas, kept.long(), torch.cat([flags.long(), unchanged, step, draw[1:]])


def attention_of(shape: CheckShape) -> Iterator[Named]:
    """Yields checks of attention: a canvas at several contexts, alone and with text before it, and text."""

    def make(layer: LayerConfig, before: int, text: int) -> OracleCheck:
        return _attention(shape, attention.attention, layer, before, text)

    for layer in shape.kinds():
        for before in shape.contexts:
            for text in (0, shape.canvas):
                yield f"attention {kind(layer)}, context {before}, {text} of text", partial(make, layer, before, text)
        yield f"attention {kind(layer)}, all text", partial(make, layer, 0, 2 * shape.canvas)


def _attention(shape: CheckShape, run: layer_checks.Attend, layer: LayerConfig, before: int, text: int) -> OracleCheck:
    """Checks attention of a canvas and the text before it, or, with two canvases of text, of text alone."""
    alone = text > shape.canvas
    count = text if alone else shape.canvas + text
    window = shape.config.sliding_window if layer.is_sliding else None
    end = before + count
    # A sliding layer's cache begins where the canvas's window does.
    first = 0 if window is None or alone else max(0, before + text - window + 1)
    kv_heads, size = layer.num_key_value_heads, layer.head_dim
    scale = 1.4 * size**-0.25  # scores of about 2: some keys count much more than others
    return layer_checks.attention_check(
        run,
        shape.normal(shape.config.num_attention_heads, count, size, seed=1, scale=scale),
        shape.normal(kv_heads, end + 53, size, seed=2, scale=scale),
        shape.normal(kv_heads, end + 53, size, seed=3),
        (first, end),
        text,
        window,
    )
