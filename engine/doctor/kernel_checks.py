"""Every kernel of a step, called by its module's public function, against its oracle: at a model's shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from engine.config import LayerConfig, ModelConfig
from engine.doctor import layer_checks, product_checks
from engine.doctor.decode_all import decode_all
from engine.doctor.operands import draws, normal, packed, routing
from engine.doctor.oracle import OracleCheck
from engine.doctor.vocabulary_checks import vocabulary_check
from engine.kernels import attention, expert_gemm, expert_sort, linear8, norms, vocabulary
from engine.weights.quantize import INT4, INT4_G64, INT8, NF4, NF4_VALUES

Make = Callable[[], OracleCheck]
Named = tuple[str, Make]  # operands are made only when their turn comes: those of the experts take 0.5 GB


@dataclass(frozen=True)
class Shape:
    """What the kernels are checked at."""

    config: ModelConfig
    device: torch.device
    dtype: torch.dtype
    contexts: tuple[int, ...]  # tokens before the canvas, for attention

    @property
    def canvas(self) -> int:
        return self.config.canvas_length

    def normal(self, *shape: int, seed: int, scale: float = 1.0) -> Tensor:
        return normal(*shape, device=self.device, dtype=self.dtype, seed=seed, scale=scale)

    def kinds(self) -> list[LayerConfig]:
        """The layers' kinds, each once."""
        return list(dict.fromkeys(self.config.layers))


def kernel_checks(shape: Shape) -> list[Named]:
    """Names and makers of all checks, in the order of a step."""
    parts = (_decode, _sort, _experts, _linears, _norms, _attention, _vocabulary)
    return [named for part in parts for named in part(shape)]


def _decode(shape: Shape) -> Iterator[Named]:
    def make(is_nf4: bool) -> OracleCheck:
        codes = torch.tensor(NF4_VALUES) if is_nf4 else torch.arange(-8.0, 8.0)
        return product_checks.decode_check(
            lambda words, low, high: decode_all(words, low, high, is_nf4, shape.dtype),
            codes.to(shape.dtype).float().to(shape.device),  # the tables hold values in bf16
            shape.dtype,
        )

    for name in ("int4", "nf4"):
        yield f"decode {name}, all words", partial(make, name == "nf4")


def _sort(shape: Shape) -> Iterator[Named]:
    config = shape.config

    def group(chosen: Tensor, experts: int, block: int) -> tuple[Tensor, ...]:
        found = expert_sort.group(chosen, experts, block)
        return found.pairs, found.offsets, found.tiles

    def make(tokens: int) -> OracleCheck:
        _, chosen = routing(tokens, config.num_experts, config.top_k_experts, shape.device, seed=5)
        return product_checks.sort_check(group, chosen, config.num_experts, 16)

    for tokens in (shape.canvas, 2 * shape.canvas, 1):
        yield f"expert sort, {tokens} tokens", partial(make, tokens)


def _experts(shape: Shape) -> Iterator[Named]:
    config = shape.config
    number, hidden, width = config.num_experts, config.hidden_size, config.moe_intermediate_size

    def make(scheme: str, tokens: int) -> OracleCheck:
        kind = {str(each): each for each in (INT4, INT4_G64, NF4)}[scheme]
        weights, chosen = routing(tokens, number, config.top_k_experts, shape.device, seed=7)
        return product_checks.experts_check(
            expert_gemm.experts,
            shape.normal(tokens, hidden, seed=tokens),
            weights,
            chosen,
            packed(number, 2 * width, hidden, scheme=kind, device=shape.device, seed=1),
            packed(number, hidden, width, scheme=kind, device=shape.device, seed=2),
        )

    for scheme in (INT4, INT4_G64, NF4):
        for tokens in (shape.canvas, 2 * shape.canvas, 1) if scheme is INT4 else (shape.canvas,):
            yield f"experts {scheme}, {tokens} tokens", partial(make, str(scheme), tokens)


def _linears(shape: Shape) -> Iterator[Named]:
    def make(rows: int, inputs: int, tokens: int) -> OracleCheck:
        weight = packed(rows, inputs, scheme=INT8, device=shape.device, seed=1)
        return product_checks.linear_check(linear8.linear8, shape.normal(tokens, inputs, seed=tokens), weight)

    for rows, inputs in linear_shapes(shape.config):
        yield f"linear8 {rows} x {inputs}", partial(make, rows, inputs, shape.canvas)
    rows, inputs = linear_shapes(shape.config)[0]
    for tokens in (2 * shape.canvas, 1):
        yield f"linear8 {rows} x {inputs}, {tokens} tokens", partial(make, rows, inputs, tokens)


def linear_shapes(config: ModelConfig) -> list[tuple[int, int]]:
    """(out, in) of a step's 8-bit linear layers, each once."""
    hidden = config.hidden_size
    found = []
    for layer in dict.fromkeys(config.layers):
        queries = config.num_attention_heads * layer.head_dim
        found += [(queries, hidden), (layer.num_key_value_heads * layer.head_dim, hidden), (hidden, queries)]
    return list(dict.fromkeys([*found, (config.intermediate_size, hidden), (hidden, config.intermediate_size)]))


def _norms(shape: Shape) -> Iterator[Named]:
    hidden, tokens = shape.config.hidden_size, 2 * shape.canvas
    many = partial(shape.normal, tokens, hidden)

    def add() -> OracleCheck:
        weights = shape.normal(hidden, seed=4), shape.normal(3, hidden, seed=5)
        return layer_checks.add_norm_check(norms.add_norm, many(seed=0), many(seed=1), *weights)

    def merge(text: int) -> OracleCheck:
        weights, scalars = shape.normal(4, hidden, seed=6), torch.tensor([0.7, -1.3]).to(shape.device, shape.dtype)
        x, dense, sparse = (many(seed=seed) for seed in range(3))
        return layer_checks.merge_norm_check(norms.merge_norm, x, dense, sparse, weights, scalars, text)

    def rope(layer: LayerConfig) -> OracleCheck:
        size = layer.head_dim
        heads = (shape.config.num_attention_heads, layer.num_key_value_heads, layer.num_key_value_heads)
        angle = torch.rand(shape.canvas, size // 2, generator=draws(shape.device, 9), device=shape.device) * 6.28
        angles = torch.cat([angle, angle], dim=-1)
        queries, keys, values = (
            shape.normal(shape.canvas, count * size, seed=seed) for seed, count in enumerate(heads)
        )
        return layer_checks.head_norm_rope_check(
            norms.head_norm_rope,
            (queries, keys, values),
            (shape.normal(size, seed=4), shape.normal(size, seed=5)),
            (angles.cos().to(shape.dtype), angles.sin().to(shape.dtype)),
            start=11,
            capacity=shape.canvas + 40,
        )

    yield "add_norm", add
    for text in (0, shape.canvas):
        yield f"merge_norm, {text} of text", partial(merge, text)
    for layer in shape.kinds():
        yield f"head_norm_rope {kind(layer)}", partial(rope, layer)


def _attention(shape: Shape) -> Iterator[Named]:
    def make(layer: LayerConfig, before: int, text: int) -> OracleCheck:
        return attention_operands(shape, attention.attention, layer, before, text)

    for layer in shape.kinds():
        for before in shape.contexts:
            for text in (0, shape.canvas):
                yield f"attention {kind(layer)}, context {before}, {text} of text", partial(make, layer, before, text)
        yield f"attention {kind(layer)}, all text", partial(make, layer, 0, 2 * shape.canvas)


def attention_operands(
    shape: Shape, run: layer_checks.Attend, layer: LayerConfig, before: int, text: int
) -> OracleCheck:
    """Attention of a canvas and the text before it, or, with two canvases of text, of text alone."""
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


def _vocabulary(shape: Shape) -> Iterator[Named]:
    config, device = shape.config, shape.device

    def make(is_restricted: bool) -> OracleCheck:
        table = packed(config.vocab_size, config.hidden_size, scheme=INT8, device=device, seed=1)
        table.scales.mul_(2.0)  # entropies of about 7 nats, as in the middle of a run
        hidden = shape.normal(shape.canvas, config.hidden_size, seed=2)
        if not is_restricted:
            return vocabulary_check(vocabulary.vocabulary_stage, hidden, table)
        forbidden = torch.arange(config.vocab_size, device=device) % 3 == 1
        pinned = torch.full((shape.canvas,), -1, dtype=torch.int32, device=device)
        pinned[1], pinned[5] = 7, config.vocab_size - 1
        return vocabulary_check(vocabulary.vocabulary_stage, hidden, table, forbidden, pinned)

    for name, is_restricted in (("vocabulary stage", False), ("vocabulary stage, tokens pinned and forbidden", True)):
        yield name, partial(make, is_restricted)


def kind(layer: LayerConfig) -> str:
    """The layer's kind in a word."""
    return "sliding" if layer.is_sliding else "full"
