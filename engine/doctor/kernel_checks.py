"""Checks of every kernel of a step, called by its public function, against its oracle at a model's shapes.

Products are here, the rest in ``kernel_checks_between``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from engine.checks import product_checks
from engine.checks.operands import packed, routing
from engine.checks.oracle import OracleCheck
from engine.checks.vocabulary_checks import vocabulary_check
from engine.config import GELU, Activation, ModelConfig
from engine.doctor import kernel_checks_between
from engine.doctor.decode_all import decode_all
from engine.doctor.shapes import CheckShape
from engine.kernels import (
    expert_gemm,
    expert_sort,
    linear_w4a16,
    linear_w8a8,
    linear_w8a16,
    reference,
    vocabulary,
)
from engine.kernels.decode import SCALE_SHIFT
from engine.kernels.table import schemes
from engine.quant import (
    BF16,
    DEFAULT,
    E2M1_VALUES,
    INT4,
    INT8,
    NF4_VALUES,
    PRECISIONS,
    UINT4,
    Activations,
    Packed,
    Scheme,
)

Make = Callable[[], OracleCheck]
Named = tuple[str, Make]  # operands are created on demand: those of the experts take 0.5 GB


def kernel_checks(shape: CheckShape) -> list[Named]:
    """Returns names and makers of all checks, in the order of a step."""
    between = (kernel_checks_between.norms_of, kernel_checks_between.ends_of, kernel_checks_between.attention_of)
    parts = (_decode, _sort, _experts, _linears, _linears_four_bit, _linears_int8, *between, _vocabulary)
    return [named for part in parts for named in part(shape)]


def _decode(shape: CheckShape) -> Iterator[Named]:
    def make(codes: str, values: Tensor, shift: float = 1.0, scales: torch.dtype = torch.bfloat16) -> OracleCheck:
        return product_checks.decode_check(
            lambda words, low, high, *eights: decode_all(
                words, low / shift, high / shift, *eights, codes=codes, dtype=shape.dtype
            ),
            values.to(shape.dtype).float().to(shape.device),  # the tables hold values in bf16
            shape.dtype,
            scales,
            codes == "uint4",
        )

    for codes in ("int4", "uint4"):
        yield f"decode {codes}, all words", partial(make, codes, torch.arange(-8.0, 8.0))
    yield "decode nf4, all words", partial(make, "nf4", torch.tensor(NF4_VALUES))
    small = torch.float8_e4m3fn
    yield "decode e2m1, all words", partial(make, "e2m1", torch.tensor(E2M1_VALUES), SCALE_SHIFT, small)


def _sort(shape: CheckShape) -> Iterator[Named]:
    config = shape.config

    def group(chosen: Tensor, experts: int, block: int) -> tuple[Tensor, ...]:
        found = expert_sort.group(chosen, experts, block)
        return found.pairs, found.offsets, found.tiles

    def make(tokens: int) -> OracleCheck:
        _, chosen = routing(tokens, config.num_experts, config.top_k_experts, shape.device, seed=5)
        return product_checks.sort_check(group, chosen, config.num_experts, 16)

    for tokens in (shape.canvas, 2 * shape.canvas, 1):
        yield f"expert sort, {tokens} tokens", partial(make, tokens)


def _experts(shape: CheckShape) -> Iterator[Named]:
    config = shape.config
    number, hidden, width = config.num_experts, config.hidden_size, config.moe_intermediate_size

    def operands(scheme: Scheme, tokens: int) -> tuple[Tensor, Tensor, Tensor, Packed, Packed]:
        return (
            shape.normal(tokens, hidden, seed=tokens),
            *routing(tokens, number, config.top_k_experts, shape.device, seed=7),
            packed(number, 2 * width, hidden, scheme=scheme, device=shape.device, seed=1, matrices=2),
            packed(number, hidden, width, scheme=scheme, device=shape.device, seed=2),
        )

    def make(scheme: Scheme, tokens: int, activation: Activation = GELU) -> OracleCheck:
        run, plain = (partial(one, activation=activation) for one in (expert_gemm.experts, reference.experts))
        return product_checks.experts_check(run, *operands(scheme, tokens), plain)

    default = PRECISIONS[DEFAULT].experts
    for scheme in schemes("experts", "triton"):
        for tokens in (shape.canvas, 2 * shape.canvas, 1) if scheme == default else (shape.canvas,):
            yield f"experts {scheme}, {tokens} tokens", partial(make, scheme, tokens)
        yield f"experts {scheme} with SiLU, 32 tokens", partial(make, scheme, 32, "silu")


def _linears(shape: CheckShape) -> Iterator[Named]:
    def make(rows: int, size: int, tokens: int) -> OracleCheck:
        weight = packed(rows, size, scheme=INT8, device=shape.device, seed=1)
        return product_checks.linear_check(linear_w8a16.linear_w8a16, shape.normal(tokens, size, seed=tokens), weight)

    for rows, size in linear_shapes(shape.config):
        yield f"linear8 {rows} x {size}", partial(make, rows, size, shape.canvas)
    rows, size = linear_shapes(shape.config)[0]
    for tokens in (2 * shape.canvas, 1):
        yield f"linear8 {rows} x {size}, {tokens} tokens", partial(make, rows, size, tokens)

    def gated() -> OracleCheck:
        hidden, width = shape.config.hidden_size, shape.config.intermediate_size
        weight = packed(2 * width, hidden, scheme=INT8, device=shape.device, seed=3)
        run = partial(linear_w8a16.linear_w8a16, gated=True)
        return product_checks.linear_check(
            run, shape.normal(shape.canvas, hidden, seed=4), weight, product_checks.gated
        )

    yield "linear8 gated", gated


def _linears_four_bit(shape: CheckShape) -> Iterator[Named]:
    """Yields checks at a dense model's launches: few tokens, split inputs, and rows that no tile divides."""
    size = shape.config.hidden_size

    def make(scheme: Scheme, tokens: int, rows: int) -> OracleCheck:
        weight = packed(rows, size, scheme=scheme, device=shape.device, seed=1)
        x = shape.normal(tokens, size, seed=tokens)
        oracle = product_checks.linear_uint4 if scheme == UINT4 else reference.linear
        return product_checks.linear_check(linear_w4a16.linear_w4a16, x, weight, oracle)

    for scheme in schemes("linear", "triton"):
        if scheme.bits == 4:
            yield f"linear4 {scheme}, 16 tokens", partial(make, scheme, 16, size)
    for tokens in (1, 33, 2 * shape.canvas):
        yield f"linear4, {tokens} tokens", partial(make, INT4, tokens, size - 26)


def _linears_int8(shape: CheckShape) -> Iterator[Named]:
    hidden, width = shape.config.hidden_size, shape.config.intermediate_size

    def make(rows: int, size: int, gated: bool) -> OracleCheck:
        weight = packed(rows, size, scheme=INT8, device=shape.device, seed=1)
        # Groups of a token differ in magnitude, so that using another's scale is detected.
        sizes = 2.0 ** (torch.arange(size, device=shape.device) // reference.GROUP % 3)
        x = shape.normal(shape.canvas, size, seed=2) * sizes.to(shape.dtype)
        run = partial(linear_w8a8.linear_w8a8, gated=gated)
        oracle = partial(product_checks.gated, product=reference.linear_int8) if gated else reference.linear_int8
        return product_checks.linear_int8_check(run, x, weight, oracle)

    # The last group of inputs is half full.
    yield f"linear_int8 {hidden} x {hidden + width}", partial(make, hidden, hidden + width, False)
    yield "linear_int8 gated", partial(make, 2 * width, hidden + width, True)


def linear_shapes(config: ModelConfig) -> list[tuple[int, int]]:
    """Returns the distinct (out, in) of a step's 8-bit linear layers."""
    hidden = config.hidden_size
    found = []
    for layer in dict.fromkeys(config.layers):
        queries = config.num_attention_heads * layer.head_dim
        keys = layer.num_key_value_heads * layer.head_dim  # full attention uses keys as values
        found += [(queries + (1 + layer.is_sliding) * keys, hidden), (hidden, queries)]
    return list(dict.fromkeys([*found, (hidden, config.intermediate_size)]))


def _vocabulary(shape: CheckShape) -> Iterator[Named]:
    config, device = shape.config, shape.device

    def make(is_restricted: bool, activations: Activations = BF16, canvases: int = 1) -> OracleCheck:
        table = packed(config.vocab_size, config.hidden_size, scheme=INT8, device=device, seed=1)
        table.scales.mul_(2.0)  # entropies of about 7 nats, as in the middle of a run
        hidden = shape.normal(shape.canvas, config.hidden_size, seed=2)
        if not is_restricted:
            stage = vocabulary.vocabulary_stage
            return vocabulary_check(stage, hidden, table, activations=activations, canvases=canvases)
        forbidden = torch.arange(config.vocab_size, device=device) % 3 == 1
        pinned = torch.full((shape.canvas,), -1, dtype=torch.int32, device=device)
        pinned[1], pinned[5] = 7, config.vocab_size - 1
        return vocabulary_check(vocabulary.vocabulary_stage, hidden, table, forbidden, pinned)

    for name, is_restricted in (("vocabulary stage", False), ("vocabulary stage, tokens pinned and forbidden", True)):
        yield name, partial(make, is_restricted)
    yield "vocabulary stage, int8 activations", partial(make, False, Activations(head=True, soft=True))
    yield "vocabulary stage, several runs", partial(make, False, canvases=3)
