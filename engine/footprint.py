"""Bytes that a model takes, from its shape alone. Knows neither files nor this machine.

Weights and cache are exact: the empty network and the cache's own rule are asked. What a pass needs besides is the peak
of what the code holds at once; C is the canvas, V the vocabulary, H the hidden size, d the bytes of a number, S the
tokens looked at, T the tokens of a pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

from engine.cache import cache_bytes
from engine.config import LayerConfig, ModelConfig
from engine.decoders.base import PIECE
from engine.kernels import cpu, cpu_vocabulary
from engine.layers.moe import DENSE_EXPERTS
from engine.layers.packed import install
from engine.models.diffusion_gemma import DiffusionGemma
from engine.threads import available_threads
from engine.weights.quantize import AT_ONCE, Precision, Scheme

PROJECTIONS = (".q_proj.", ".k_proj.", ".v_proj.", ".o_proj.", ".gate_proj.", ".up_proj.", ".down_proj.")
UNPACKING = {4: 9, 8: 8}  # bits -> bytes a weight while ``unpack`` works: nibbles, then values and products in fp32
DECODING = 6  # bytes a weight between codes and numbers, of the few that ``cpu`` decodes at a time
SAMPLER = 5  # fp32 (C, V) buffers at once in ``sampling``: logits and four of the entropy
PROCESS = 800 * 10**6  # on a CPU: Python and torch for CUDA with its libraries 600, and what malloc keeps at the 26B
LOGITS = 6  # fp32 (C, piece of the vocabulary) buffers at once in ``cpu_vocabulary``
LIBRARIES = 2 * 32 * 2**20  # bytes of cuBLAS's workspaces, on CUDA


@dataclass(frozen=True)
class Way:
    """How a model is run; decides what is held besides weights and cache."""

    dtype: torch.dtype
    precision: Precision
    on_cpu: bool
    has_kernels: bool  # Triton kernels: weights are unpacked in registers, and no (C, V) buffer is written

    @property
    def is_program(self) -> bool:
        """Whether a step is a ``StepProgram`` on a CPU: the table by pieces, and two canvases in a first step."""
        return self.on_cpu and self.precision.experts is not None and self.dtype == torch.bfloat16


@lru_cache(maxsize=32)
def weights(config: ModelConfig, precision: Precision, dtype: torch.dtype) -> dict[str, int]:
    """Bytes of the weights by part.

    Raises:
        SafelightError: the precision does not suit the shape.
    """
    with torch.device("meta"):
        network = DiffusionGemma(config)
        if precision.is_packed:
            install(network, precision, dtype)
    parts = dict.fromkeys(("experts", "attention", "dense", "embedding", "other"), 0)
    for name, parameter in network.named_parameters():
        parts[_part(name)] += parameter.numel() * dtype.itemsize
    for name, buffer in network.named_buffers():
        parts[_part(name)] += buffer.nbytes
    return parts


def _part(name: str) -> str:
    if ".experts." in name:
        return "experts"
    if any(projection in name for projection in PROJECTIONS):
        return "attention" if ".self_attn." in name else "dense"
    return "embedding" if "embed_tokens." in name else "other"  # norms, router, scalars


def parts(config: ModelConfig, way: Way, context: int) -> dict[str, int]:
    """All bytes by part, with ``context`` tokens of committed text and a canvas behind them.

    activations: the peak of a pass through the layers. workspace: what the vocabulary stage needs beyond that, as the
    two take turns, and what stays from step to step. process: what the program itself takes, on a CPU.
    """
    layers = layer_pass(config, way, context)
    stays, stage = vocabulary_stage(config, way)
    return weights(config, way.precision, way.dtype) | {
        "vision": 0,
        "kv_cache": cache_bytes(config, context + config.canvas_length, way.dtype.itemsize),
        "activations": layers,
        "workspace": stays + max(0, stage - layers),
        **({"process": PROCESS} if way.on_cpu else {}),
    }


def layer_pass(config: ModelConfig, way: Way, context: int) -> int:
    """The most that a denoising or a causal pass holds: of its attention layers, or of its experts."""
    d = way.dtype.itemsize
    canvas = config.canvas_length * (
        2 if way.has_kernels or way.is_program else 1
    )  # a program commits one with the next one's first step
    tokens = max(canvas, min(PIECE, context))
    sliding = min(context, config.sliding_window - 1) + tokens
    full = context + config.canvas_length
    masks = tokens * (full + sliding)  # one of each kind, a byte a pair, in a causal pass

    def attention(layer: LayerConfig) -> int:
        looked_at = sliding if layer.is_sliding else full
        heads, own = config.num_attention_heads, layer.num_key_value_heads
        copies = heads if heads > own and not way.on_cpu else 0
        if way.on_cpu and d == 2:
            copies += copies or own  # the CPU's kernel reorders keys and values of 16 bits
        queries, keys = tokens * heads * layer.head_dim, tokens * own * layer.head_dim
        turning = queries * max(5 * d, d + 12)  # terms of RoPE, or of the norm in fp32
        bias = tokens * looked_at * d  # the mask as numbers
        unpacking = _unpacking(way, way.precision.attention, heads * layer.head_dim * config.hidden_size)
        looking = 2 * copies * looked_at * layer.head_dim * d + 3 * queries * d + max(bias, unpacking)
        return 2 * keys * d + max(turning, looking)

    inner = 4 * config.moe_intermediate_size * d
    if way.has_kernels:  # one row a token and expert, kept until they are summed
        experts = tokens * config.top_k_experts * (inner + config.hidden_size * d)
    elif not way.precision.is_packed and config.num_experts <= DENSE_EXPERTS:
        experts = tokens * config.num_experts * inner
    else:
        experts = tokens * (inner + 2 * config.hidden_size * d)
        unpacked = _unpacking(way, way.precision.experts, 2 * config.moe_intermediate_size * config.hidden_size)
        if way.on_cpu and way.precision.is_packed and tokens * config.top_k_experts >= cpu.LEAST_PAIRS:
            experts += available_threads() * (unpacked + 4 * tokens * config.hidden_size)  # each has a sum of its own
        else:
            experts += unpacked
    stream = 3 * tokens * config.hidden_size * max(d, 4)  # residual stream, its norm in fp32, a branch's result
    return stream + masks + max(*map(attention, set(config.layers)), experts)


def vocabulary_stage(config: ModelConfig, way: Way) -> tuple[int, int]:
    """What stays from step to step, and the peak of head, sampler and soft embedding.

    Plain path: the conditioning logits stay (C V d). The soft embedding has them as fp32 probabilities and in the
    model's type beside an unpacked piece of the table; the sampler has ``SAMPLER`` fp32 buffers.
    Kernels: a soft embedding stays (C H, fp32) and is summed up beside the hidden states; nothing is V wide.
    """
    rows = config.canvas_length * config.hidden_size
    if way.has_kernels:
        return LIBRARIES + 4 * rows, 3 * 4 * rows
    if way.is_program:
        piece = min(cpu_vocabulary.PIECE, config.vocab_size)
        table = piece * config.hidden_size * cpu.number(way.dtype).itemsize
        threads = min(available_threads(), -(-config.vocab_size // piece))
        return 4 * rows, 2 * 4 * rows + threads * (2 * 4 * rows + table + LOGITS * 4 * config.canvas_length * piece)
    d, wide = way.dtype.itemsize, config.canvas_length * config.vocab_size
    soft = 4 * wide + (d * wide if d < 4 else 0)
    soft += _unpacking(way, way.precision.embedding, config.vocab_size * config.hidden_size)
    if way.on_cpu and way.precision.embedding is not None:  # a piece's probabilities, times its scales
        soft += 4 * config.canvas_length * min(config.vocab_size, cpu.AT_ONCE // config.hidden_size)
    stays = d * wide + (0 if way.on_cpu else LIBRARIES)
    return stays, max(SAMPLER * 4 * wide, soft)


def _unpacking(way: Way, scheme: Scheme | None, numbers: int) -> int:
    """Bytes while a piece of a packed matrix is unpacked, on the plain path or on a CPU."""
    if scheme is None or way.has_kernels:
        return 0
    if way.on_cpu:
        return cpu.number(way.dtype).itemsize * min(cpu.AT_ONCE, numbers) + DECODING * min(cpu.DECODED, numbers)
    return UNPACKING[scheme.bits] * min(AT_ONCE, numbers)
