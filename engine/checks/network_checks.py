"""Checks the kernels in a network's own layers against their oracles: its first sliding and first full layer.

Everything is called as in a step, so that on a device without kernels the plain path is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from engine import kernels
from engine.checks import kernel_checks
from engine.checks.oracle import CONTEXT, EXACT, OracleCheck, Outputs, draws, normal, routing
from engine.config import GELU, Activation, GenerationConfig, LayerConfig
from engine.decoders import ACCEPTANCE
from engine.decoding.step_program import StepProgram
from engine.kernels import reference
from engine.kernels.reference import activate
from engine.layers.packed_linear import PackedExperts, PackedLinear, PackedTokenTable
from engine.layers.rope import inverse_frequencies
from engine.models.diffusion_gemma.block import Block
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import Packed

# tokens on the plain path, which spends its time unpacking, and whose memory is part of the plan
PLAIN_TOKENS = 16
PLAIN_EXPERTS = 16
PLAIN_ROWS = 16_384  # rows of the token table
PLAIN_ROUGH = (0.2, 0.5)  # shares of best tokens and draws that may differ, since logits are rounded to bf16
PROMPT = 4  # canvases of text, whose tiles are larger
Make = Callable[[], OracleCheck]


@dataclass(frozen=True)
class LayerCheck:
    """A check of one kernel at one place in the network."""

    kernel: str
    where: str
    make: Make  # operands are created on demand: those of the experts take 0.5 GB


def network_checks(network: DiffusionGemma, contexts: Sequence[int] = (CONTEXT,)) -> Iterator[LayerCheck]:
    """Returns all checks of a network with packed weights, the vocabulary stage last.

    contexts: tokens before the canvas, for attention; the oracle of 32 768 takes 5 GB at the real shape.
    """
    config, is_fast = network.config, network.device.type == "cuda"
    tokens = config.canvas_length if is_fast else min(config.canvas_length, PLAIN_TOKENS)
    random = partial(normal, device=network.device, dtype=network.dtype)
    has_kernels = kernels.run_on(network.device, network.dtype)
    for layer in dict.fromkeys(config.layers):
        index = config.layers.index(layer)
        block = network.layers[index]
        assert isinstance(block, Block)
        for path, module in block.named_modules():
            where = f"layer {index}, {path}"
            if isinstance(module, PackedLinear):
                inputs = module.weight.shape[-1]
                yield LayerCheck("linear", where, partial(_linear, module, random(tokens, inputs, seed=index)))
            elif isinstance(module, PackedExperts):
                used = config.num_experts if is_fast else min(config.num_experts, PLAIN_EXPERTS)
                kinds = [(tokens, module.activation)]
                if has_kernels:  # tiles of a prompt, and the gates of other families
                    kinds += [(PROMPT * tokens, module.activation), (tokens // 8 + 1, "silu")]
                for count, gate in kinds:
                    chosen = routing(count, used, config.top_k_experts, network.device, seed=index)
                    make = partial(_experts, module, gate, random(count, config.hidden_size, seed=index), *chosen)
                    yield LayerCheck("experts", f"{where}, {count} tokens by {gate}", make)
        for context in contexts:
            for text in (0, tokens) if has_kernels else (0,):
                where = f"layer {index}, context {context}, {text} of text"
                yield LayerCheck("attention", where, partial(_attention, network, layer, tokens, context, text))
        if has_kernels:
            yield from _joined(network, index, random(tokens, config.hidden_size, seed=index))
            yield from _turns(network, layer, tokens, f"layer {index}")
    if has_kernels:
        yield from _between(network, tokens)
    table: nn.Module = network.embed_tokens
    if isinstance(table, PackedTokenTable):
        yield LayerCheck("vocabulary", "token table", partial(_vocabulary, network, table, tokens))
        if has_kernels:
            many = partial(_vocabulary, network, table, tokens, kernel_checks.CANVASES)
            yield LayerCheck("vocabulary", "several runs", many)


def _linear(linear: PackedLinear, x: Tensor) -> OracleCheck:
    return kernel_checks.linear_check(lambda x, _: linear(x), x, linear.weight.packed)


def _joined(network: DiffusionGemma, index: int, x: Tensor) -> Iterator[LayerCheck]:
    """Yields checks of the products that fused layers join: queries, keys and values; gate and up, multiplied."""
    from engine.kernels.linear_w8a16 import linear_w8a16  # needs Triton

    layer = network.fused().layers[index]

    def gated(x: Tensor, weight: Packed) -> Tensor:
        gate, up = reference.linear(x, weight).chunk(2, dim=-1)
        return activate(gate, GELU) * up

    if layer.projections is not None:
        make = partial(kernel_checks.linear_check, linear_w8a16, x, layer.projections)
        yield LayerCheck("linear", f"layer {index}, queries, keys and values", make)
    if layer.gate_up is not None:
        make = partial(kernel_checks.linear_check, partial(linear_w8a16, gated=True), x, layer.gate_up, gated)
        yield LayerCheck("linear", f"layer {index}, gate and up", make)


def _experts(experts: PackedExperts, gate: Activation, *routed: Tensor) -> OracleCheck:
    packed = experts.gate_up_proj.packed, experts.down_proj.packed

    def run(x: Tensor, weights: Tensor, chosen: Tensor, *packed: Packed) -> Tensor:
        return kernels.experts(x, weights, chosen, packed[0], packed[1], gate)

    x, weights, chosen = routed
    return kernel_checks.experts_check(run, (x, weights, chosen, *packed), gate)


def _attention(network: DiffusionGemma, layer: LayerConfig, tokens: int, context: int, text: int) -> OracleCheck:
    """Checks attention of a canvas and the text before it that is read with it."""
    random = partial(normal, device=network.device, dtype=network.dtype)
    heads, size, end = layer.num_key_value_heads, layer.head_dim, context + tokens + text
    window = network.config.sliding_window if layer.is_sliding else None
    # A sliding layer's cache begins where the canvas's window does.
    least = 0 if text else 3  # text with a window reaches back to the beginning
    first = least if window is None else max(least, context + text - window + 1)
    scale = 1.4 * size**-0.25  # scores of about 2: some keys count much more than others
    return kernel_checks.attention_check(
        kernels.attend,
        random(network.config.num_attention_heads, tokens + text, size, seed=1, scale=scale),
        random(heads, end + 53, size, seed=2, scale=scale),
        random(heads, end + 53, size, seed=3),
        (first, end),
        text,
        window,
    )


def _turns(network: DiffusionGemma, layer: LayerConfig, tokens: int, where: str) -> Iterator[LayerCheck]:
    """Yields checks of head norms with rotation, and of the tables of angles."""
    from engine.kernels import norms  # needs Triton

    device, dtype, size = network.device, network.dtype, layer.head_dim
    random = partial(normal, device=device, dtype=dtype)
    angle = torch.rand(tokens, size // 2, generator=draws(device, 9), device=device) * 6.28
    angles = torch.cat([angle, angle], dim=-1)
    counts = (network.config.num_attention_heads, layer.num_key_value_heads, layer.num_key_value_heads)
    parts = tuple(random(tokens, count * size, seed=seed) for seed, count in enumerate(counts))
    weights, rope = (random(size, seed=4), random(size, seed=5)), (angles.cos().to(dtype), angles.sin().to(dtype))
    heads = norms.head_norm_rope, parts, weights, rope, tokens + 11, tokens + CONTEXT
    yield LayerCheck("norms", f"{where}, heads", partial(kernel_checks.head_norm_rope_check, *heads))
    far = norms.rope_tables, inverse_frequencies(layer).to(device), 200_000, tokens, dtype
    yield LayerCheck("rope", where, partial(kernel_checks.rope_check, *far))


def _between(network: DiffusionGemma, tokens: int) -> Iterator[LayerCheck]:
    """Yields checks of the other kernels between the products, and at a step's two ends."""
    from engine.kernels import norms, router  # need Triton

    config, device, checks = network.config, network.device, kernel_checks
    hidden, top_k, experts = config.hidden_size, config.top_k_experts, config.num_experts
    random = partial(normal, device=device, dtype=network.dtype)
    x, y, weights = random(tokens, hidden, seed=0), random(tokens, hidden, seed=1), random(4, hidden, seed=2)
    rows, factors = random(experts, hidden, seed=5, scale=2 * hidden**-0.5), random(experts, seed=6).exp()
    sparse, scalars = random(tokens * top_k, hidden, seed=7), random(2, seed=8)
    _, chosen = routing(tokens, experts, top_k, device, seed=5)
    ids = torch.randint(config.vocab_size, (tokens,), generator=draws(device, 4), device=device)
    table = cast(Packed, network.embed_tokens.table)

    merged = norms.merge_norm, x, y, sparse, weights, scalars, tokens // 2
    embedded = norms.embed_rows, ids, table, y[: tokens - 3], 3
    made: dict[tuple[str, str], Make] = {
        ("norms", "before a layer"): partial(checks.norm_check, norms.norm, x, weights[0]),
        ("norms", "after attention"): partial(checks.add_norm_check, norms.add_norm, x, y, weights[0], weights[1:]),
        ("norms", "at a layer's end"): partial(checks.merge_norm_check, *merged),
        ("router", "of a layer"): partial(checks.router_check, router.route, x, rows, factors, top_k),
        ("sort", "of the experts' tokens"): partial(kernel_checks.sort_check, router.group, chosen, experts, 16),
        ("embed_rows", "of a canvas and text"): partial(checks.embed_rows_check, *embedded),
        **{("settle", f"by {rule}"): partial(_settle, network, rule) for rule in ACCEPTANCE},
    }
    yield from (LayerCheck(*names, make) for names, make in made.items())


def _settle(network: DiffusionGemma, acceptance: str) -> OracleCheck:
    """Checks the end of a step against the plain path's, bit for bit, from the same predictions."""
    cache, length, device = network.new_cache(), network.config.canvas_length, network.device
    cache.reserve(length)
    hidden = normal(length, network.config.hidden_size, device=device, dtype=network.dtype, seed=1)
    canvas, before = torch.arange(2 * length, device=device).view(2, length) % network.config.vocab_size
    pinned = torch.where(torch.arange(length, device=device) % 6 == 0, canvas, -1)

    def begun(bound: float) -> StepProgram:
        program = StepProgram(network, cache, length)
        program.seed(3)
        program.begin(canvas, pinned, GenerationConfig(acceptance=acceptance, entropy_bound=bound))
        return program

    bound = float(begun(1.0).vocabulary(hidden).entropy.sum()) / 8  # for an eighth of the canvas

    def settled(is_fused: bool, hidden: Tensor) -> Outputs:
        program = begun(bound)
        program.fused = program.fused if is_fused else None
        program.previous.copy_(before)
        program.settle(program.vocabulary(hidden))
        counts = program.flags.long(), program.unchanged, program.step, program.draw
        return program.tokens, program.canvas, program.kept.long(), torch.cat(counts)

    return OracleCheck(
        run=partial(settled, True, hidden),
        oracle=partial(settled, False, hidden),
        mixups={"the neighbouring position": partial(settled, False, hidden.roll(1, 0))},
        tolerances=(EXACT,) * 4,
    )


def _vocabulary(network: DiffusionGemma, table: PackedTokenTable, tokens: int, canvases: int = 1) -> OracleCheck:
    hidden = normal(tokens, network.config.hidden_size, device=network.device, dtype=network.dtype, seed=1)
    is_fast = network.device.type == "cuda"
    rows = table.table if is_fast else table.table.rows(0, min(network.config.vocab_size, PLAIN_ROWS))
    rough = {} if is_fast else {"rough": PLAIN_ROUGH}
    return kernel_checks.vocabulary_check(kernels.vocabulary_stage, hidden, rows, canvases=canvases, **rough)
