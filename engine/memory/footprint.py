"""Bytes that a model takes, from its shape alone. Knows neither files nor this machine.

Weights and cache are exact: they are computed from the empty network and the cache's own rule. Memory for a pass is the
peak of what the code holds at once. C is the canvas, V the vocabulary, H the hidden size, d the bytes of a number, S
the tokens attended to, T the tokens of a pass.

On CUDA a process takes more than its tensors: a context, and what torch's allocator takes in whole segments and keeps.
With kernels no tensor of a pass grows with the context, so that the kept memory stays constant. Counted for the
allocator's ordinary segments. Expandable ones would save 0.4 GB of the 26B by a simulation, but they fail on WSL2 with
some drivers, do not exist on Windows, and are not needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import torch
from torch import nn

from engine import kernels
from engine.config import LayerConfig, ModelConfig, VisionConfig
from engine.kernels import cpu, cpu_decode, cpu_int4, cpu_vocabulary
from engine.kernels.table import schemes
from engine.layers.embedding import LOGITS_AT_ONCE, TOP_PIECE
from engine.layers.kv_cache import KERNEL_PIECE, PIECE, cache_bytes, capacity
from engine.layers.packed_linear import PackedLinear, install
from engine.quant import AT_ONCE, FP4_F32, Precision, Scheme
from engine.threads import available_threads

PROJECTIONS = tuple(f".{name}_proj." for name in ("qkv", "q", "k", "v", "o", "gate_up", "gate", "up", "down"))
DECODING = 6  # bytes a weight while codes become numbers, for the few weights that ``cpu_decode`` takes at a time
SAMPLER = 5  # fp32 (C, V) buffers at once in ``sampling``: logits and four of the entropy
DRAWN = 10  # fp32 buffers of a piece of the logits in ``shares`` and ``drawing``, with top-k, top-p and int64 places
LIBRARIES = 2 * 32 * 2**20  # bytes of cuBLAS's workspaces on CUDA, in use and in a graph: adapters take it
HELD_ROWS = 10  # tensors (T, H) in a pass by kernels, without the experts': residual streams, norms, branches' results
LOGITS = 6  # fp32 (C, piece of the vocabulary) buffers at once in ``cpu_vocabulary``
PROGRAM_CANVASES = 2  # rows of the programs of one cache, of all lengths together: 256 + 128 + 64 + 32 + 16 are fewer
PLACE = 256  # bytes of a place of a program besides its soft embedding: ids, entropies, up to 10 likeliest tokens
PROCESS = 600_000_000  # Python and torch for CUDA with its libraries, on a CPU
KEPT_SHARE = 40  # the share of the weights (1 / 40) that malloc and torch's matrix products keep, measured at the 26B

# Bytes of a process's context on CUDA, with the code of kernels and libraries: 0.5 to 0.6 GB on data-centre cards and
# 0.3 to 0.45 on consumer ones, by other people's reports; not yet measured with this program. The least applies as soon
# as a process asks a card for anything.
CUDA_CONTEXT, LEAST_CUDA_CONTEXT = 600_000_000, 300_000_000
# Memory that weights leave empty in the allocator's segments: one part in so many, or so many bytes a layer, whichever
# is less. By a simulation of the allocator's rules that also joins adjacent blocks.
SEGMENT_SHARE, SEGMENT_BYTES = 28, 17_500_000


Build: TypeAlias = Callable[[ModelConfig], nn.Module]
"""Makes a family's network of a shape."""


@dataclass(frozen=True)
class Mode:
    """The conditions under which a model runs; they decide what is held besides weights and cache."""

    dtype: torch.dtype
    precision: Precision
    on_cpu: bool
    has_kernels: bool  # Triton kernels: weights are unpacked in registers, and no (C, V) buffer is written

    @staticmethod
    def on_device(device: torch.device, dtype: torch.dtype, precision: Precision) -> Mode:
        by_kernels = precision.is_packed and kernels.run_on(device, dtype)
        return Mode(dtype, precision, device.type == "cpu", by_kernels)

    @property
    def is_program(self) -> bool:
        """True if a step is a ``StepProgram`` on a CPU: it reads the table by pieces, a first one two canvases."""
        return self.on_cpu and self.precision.experts is not None and self.dtype == torch.bfloat16


@lru_cache(maxsize=512)  # some dozens of models in each precision
def weights(
    build: Build, config: ModelConfig, precision: Precision, dtype: torch.dtype, on_cpu: bool = False
) -> dict[str, int]:
    """Returns the bytes of the weights by part, as stored; with ``on_cpu`` as this processor's kernels read them.

    Raises:
        SafelightError: the precision does not suit the shape.
    """
    network, times = _one_of_each(build, config, precision, dtype)
    parts = dict.fromkeys(("experts", "attention", "dense", "embedding", "other", "vision"), 0)
    for name, parameter in network.named_parameters():
        parts[_part(name)] += times(name) * parameter.numel() * dtype.itemsize
    for name, buffer in network.named_buffers():
        parts[_part(name)] += times(name) * buffer.nbytes
    for name, module in network.named_modules():
        if (
            on_cpu
            and dtype == torch.bfloat16
            and isinstance(module, PackedLinear)
            and cpu_int4.block_for(module.weight.packed)
        ):
            parts[_part(f"{name}.")] += times(name) * module.weight.scales.nbytes  # of zero points
    return parts


def _one_of_each(
    build: Build, config: ModelConfig, precision: Precision, dtype: torch.dtype
) -> tuple[nn.Module, Callable[[str], int]]:
    """Returns an empty network with one of several equal layers, and how often the whole one has what is under a path.

    A network of 30 layers would take a second.

    Raises:
        SafelightError: the precision does not suit the shape.
    """
    others = [(*path.split(".", 2), scheme) for path, scheme in precision.others if path.startswith("layers.")]
    kinds = [
        (layer, frozenset((rest, scheme) for _, number, rest, scheme in others if number == str(index)))
        for index, layer in enumerate(config.layers)
    ]
    counts, vision = {kinds.index(kind): count for kind, count in Counter(kinds).items()}, config.vision
    first = replace(
        config,
        layers=config.layers[: max(counts) + 1],
        vision=replace(vision, num_hidden_layers=1) if vision is not None else None,
    )

    def times(name: str) -> int:
        if name.startswith("layers."):
            return counts.get(int(name.split(".")[1]), 0)
        return vision.num_hidden_layers if vision is not None and name.startswith("vision.layers.") else 1

    with torch.device("meta"):
        network = build(first)
        if precision.is_packed:
            install(network, precision, dtype)
    return network, times


def _part(name: str) -> str:
    if name.startswith("vision."):
        return "vision"
    if ".experts." in name:
        return "experts"
    if any(projection in name for projection in PROJECTIONS):
        return "attention" if ".self_attn." in name else "dense"
    return "embedding" if "embed_tokens." in name or "lm_head." in name else "other"  # norms, router, scalars


def parts(build: Build, config: ModelConfig, mode: Mode, context: int, draft: int = 0) -> dict[str, int]:
    """Returns all bytes by part, with ``context`` tokens of committed text and a canvas after them.

    draft: numbers of the adapter that a model drafts with, counted among the other weights.

    activations: the peak of a pass through the layers. workspace: memory of the vocabulary stage beyond that, as the
    two alternate, and memory kept from step to step. With kernels a pass is one of prefill, and a step has its own
    memory, which its graph keeps; models without denoising steps have neither. reserve: memory that allocators take in
    addition. On a CPU only: process, the program itself. On CUDA only: cuda_context.
    """
    counted = weights(build, config, mode.precision, mode.dtype, mode.on_cpu)
    counted = counted | {"other": counted["other"] + draft * mode.dtype.itemsize}
    if not mode.on_cpu:
        counted = counted | {"vision": 0}  # parked on the host
    if mode.has_kernels and config.denoises:
        tokens = min(max(KERNEL_PIECE, config.largest_image), context)
        layers, stays, stage = kernel_pass(config, mode, tokens), step_memory(config, mode), 0
    else:
        layers, (stays, stage) = layer_pass(config, mode, context), vocabulary_stage(config, mode)
        if config.vision is not None and mode.on_cpu:  # before the text; elsewhere the tower is loaded only briefly
            layers = max(layers, image_pass(config.vision, mode.dtype.itemsize, config.largest_image))
    return counted | {
        "kv_cache": text_cache(config, mode, context),
        "activations": layers,
        "workspace": stays + max(0, stage - layers),
        "process": PROCESS if mode.on_cpu else 0,
        "cuda_context": 0 if mode.on_cpu else CUDA_CONTEXT,
        "reserve": reserve(config, mode, sum(counted.values()), context),
    }


def text_cache(config: ModelConfig, mode: Mode, context: int) -> int:
    """Returns the bytes of a cache with room for ``context`` tokens of text and a canvas."""
    piece = PIECE if mode.on_cpu else KERNEL_PIECE
    return cache_bytes(config, context + config.canvas_length, mode.dtype.itemsize, piece)


def image_pass(vision: VisionConfig, itemsize: int, image_tokens: int) -> int:
    """Returns the most that reading an image holds besides the tower: for attention or MLP, and the image.

    With PyTorch's kernels attention holds no scores; queries, keys and values are held as projected, normed and
    rotated.
    """
    patches = image_tokens * vision.pooling_kernel_size**2
    heads = vision.num_attention_heads * vision.head_dim
    norms = 3 * 4 * max(vision.hidden_size, heads)  # in fp32
    layer = max(itemsize * 9 * heads + norms, itemsize * 3 * vision.intermediate_size)
    return patches * (itemsize * 4 * vision.hidden_size + layer + 4 * 3 * vision.patch_size**2)


def lent_bytes(vision: VisionConfig, tower: int, itemsize: int) -> int:
    """Returns the most of a tower's weights that is on a card at once: a layer, or the positions.

    ``tower``: bytes in all.
    """
    positions = 2 * vision.position_embedding_size * vision.hidden_size * itemsize
    return max(tower // vision.num_hidden_layers, positions)


def kernel_pass(config: ModelConfig, mode: Mode, tokens: int, is_joint: bool = False) -> int:
    """Returns the most that a pass by kernels holds, at any context: for its experts, or its attention layers.

    is_joint: for several runs, whose projected rows are copied out and attended ones back.
    """
    hidden = config.hidden_size
    experts = HELD_ROWS * hidden + config.top_k_experts * (config.moe_intermediate_size + hidden)
    heads = config.num_attention_heads * max(layer.head_dim for layer in config.layers)
    attention = 6 * hidden + (7 if is_joint else 4) * heads  # queries as projected, rotated, attended; keys and values
    return tokens * mode.dtype.itemsize * max(experts, attention)


def step_memory(config: ModelConfig, mode: Mode) -> int:
    """Returns the memory kept for denoising steps by kernels: libraries, the programs' buffers, the graphs' memory.

    A graph's memory is that of a pass of two canvases, one to be committed, or of the vocabulary stage, or of the
    logits for a top k. Those of shorter canvases lie in the same memory.
    """
    buffers = config.canvas_length * (config.hidden_size * mode.dtype.itemsize + PLACE)
    graph = max(kernel_pass(config, mode, 2 * config.canvas_length), kernel_stage(config, mode))
    return LIBRARIES + PROGRAM_CANVASES * buffers + graph


def kernel_stage(config: ModelConfig, mode: Mode, canvases: int = 1) -> int:
    """Returns the most that the vocabulary stage by kernels holds, or the logits of a piece for a top k."""
    d, length, hidden = mode.dtype.itemsize, config.canvas_length, config.hidden_size
    statistics = length * config.vocab_size // 128 * 8 * 4  # of each tile of tokens, with the second best logit
    stage = statistics + 8 * 4 * length * hidden  # a chunk's weights, sums of the soft embedding
    top = length * min(TOP_PIECE, config.vocab_size) * 2 * d  # logits, and a copy with forbidden tokens masked
    return max(canvases * stage, top + 4 * canvases * length * hidden * d)


def reserve(config: ModelConfig, mode: Mode, held: int, context: int) -> int:
    """Returns what allocators take beyond tensors, with weights of ``held`` bytes.

    On a CPU: memory that malloc and torch's matrix products keep. On CUDA: the unused rest of segments; steps before a
    capture, whose memory is not the graph's; keys and values of one layer, which are held twice while their buffers
    grow.
    """
    if mode.on_cpu:
        return held // KEPT_SHARE
    room = context + config.canvas_length
    grown = max(
        2 * layer.num_key_value_heads * layer.head_dim * capacity(config, layer, room) for layer in config.layers
    )
    warm_up = kernel_pass(config, mode, 2 * config.canvas_length) if mode.has_kernels and config.denoises else 0
    return segments(config, held) + warm_up + grown * mode.dtype.itemsize


def segments(config: ModelConfig, held: int) -> int:
    """Returns the bytes that weights of ``held`` bytes leave empty in the allocator's segments."""
    return min(held // SEGMENT_SHARE, len(config.layers) * SEGMENT_BYTES)


def layer_pass(config: ModelConfig, mode: Mode, context: int) -> int:
    """Returns the most that a plain denoising or causal pass holds: for its attention layers, or its experts or MLP."""
    canvas = config.canvas_length * (2 if mode.is_program and config.denoises else 1)  # one is committed with the next
    tokens = max(canvas, min(max(PIECE, config.largest_image), context))
    if config.reads_whole:
        tokens = context + config.canvas_length
    return rows_pass(config, mode, context, tokens, tokens)


def rows_pass(config: ModelConfig, mode: Mode, context: int, rows: int, tokens: int) -> int:
    """Returns the most that a plain pass of ``rows`` rows holds, of which ``tokens`` attend to one text.

    If these are not all rows, as in a pass of several runs, the rows of each run are copied out and back.
    """
    d = mode.dtype.itemsize
    sliding = min(context, config.sliding_window - 1) + tokens
    full = context + config.canvas_length
    kinds = {layer.is_sliding for layer in config.layers}
    is_masked = not config.reads_whole  # a pass over all of a text has no masks
    masks = is_masked * tokens * sum(sliding if slides else full for slides in kinds)  # a byte a pair

    def attention(layer: LayerConfig) -> int:
        looked_at = sliding if layer.is_sliding else full
        heads, own = config.num_attention_heads, layer.num_key_value_heads
        copies = heads if heads > own and not mode.on_cpu else 0
        if mode.on_cpu and d == 2:
            copies += copies or own  # the CPU's kernel reorders keys and values of 16 bits
        queries, keys = rows * heads * layer.head_dim, rows * own * layer.head_dim
        turning = queries * max(5 * d, d + 12)  # terms of RoPE, or of the norm in fp32
        copied = 2 * queries * d if rows > tokens else 0
        bias = is_masked * tokens * looked_at * d  # the mask as numbers
        unpacking = _unpacking(mode, mode.precision.attention, heads * layer.head_dim * config.hidden_size)
        looking = 2 * copies * looked_at * layer.head_dim * d + 3 * queries * d + copied + max(bias, unpacking)
        return 2 * keys * d + max(turning, looking)

    inner = 4 * config.moe_intermediate_size * d
    width = max(map(config.dense_width, config.layers))  # gate, up and their product; then the result
    dense = rows * d * max(3 * width, width + config.hidden_size)
    dense += _unpacking(mode, mode.precision.dense, width * config.hidden_size)
    if not config.num_experts:
        experts = 0
    elif mode.has_kernels:
        held = 2 * config.hidden_size + config.top_k_experts * (config.moe_intermediate_size + config.hidden_size)
        experts = rows * d * held
        experts += _unpacking(mode, mode.precision.experts, 2 * config.moe_intermediate_size * config.hidden_size)
    elif not mode.precision.is_packed and config.runs_all_experts:
        experts = rows * config.num_experts * inner
    else:
        experts = rows * (inner + 2 * config.hidden_size * d)
        unpacked = _unpacking(mode, mode.precision.experts, 2 * config.moe_intermediate_size * config.hidden_size)
        if mode.on_cpu and mode.precision.is_packed and rows * config.top_k_experts >= cpu.LEAST_PAIRS:
            experts += available_threads() * (unpacked + 4 * rows * config.hidden_size)  # each thread has its own sum
        else:
            experts += unpacked
    stream = 3 * rows * config.hidden_size * max(d, 4)  # residual stream, its norm in fp32, a branch's result
    ropes = 2 * rows * d * sum(layer.head_dim for layer in set(config.layers))  # cosines and sines
    return stream + masks + ropes + max(*map(attention, set(config.layers)), dense, experts)


def vocabulary_stage(config: ModelConfig, mode: Mode, canvases: int = 1) -> tuple[int, int]:
    """Returns bytes kept from step to step, and the peak of head, sampler and soft embedding, on the plain path.

    canvases: of programs in one pass.

    The conditioning logits are kept (C V d). The soft embedding holds them as fp32 probabilities and in the model's
    type, and an unpacked piece of the table; the sampler has ``SAMPLER`` fp32 buffers.
    """
    positions = canvases * config.canvas_length
    rows = positions * config.hidden_size
    if not config.denoises:  # logits of a block, again where some are forbidden, or once and a piece that is drawn from
        logits = 4 * positions * config.vocab_size
        head = _unpacking(mode, mode.precision.embedding, config.vocab_size * config.hidden_size)
        piece = max(4 * LOGITS_AT_ONCE, 4 * config.vocab_size)
        stage = max((3 if config.reads_whole else 2) * logits, logits + DRAWN * min(logits, piece), head)
        return (0 if mode.on_cpu else LIBRARIES), stage
    if mode.is_program:
        piece = min(cpu_vocabulary.PIECE, config.vocab_size)
        table = piece * config.hidden_size * cpu.number(mode.dtype).itemsize
        threads = min(available_threads(), -(-config.vocab_size // piece))
        return PROGRAM_CANVASES * 4 * rows, 2 * 4 * rows + threads * (
            2 * 4 * rows + table + LOGITS * 4 * positions * piece
        )
    d, wide = mode.dtype.itemsize, config.canvas_length * config.vocab_size
    soft = 4 * wide + (d * wide if d < 4 else 0)
    soft += _unpacking(mode, mode.precision.embedding, config.vocab_size * config.hidden_size)
    if mode.on_cpu and mode.precision.embedding is not None:  # a piece's probabilities, times its scales
        soft += 4 * config.canvas_length * min(config.vocab_size, cpu.AT_ONCE // config.hidden_size)
    stays = d * wide + (0 if mode.on_cpu else LIBRARIES)
    return stays, max(SAMPLER * 4 * wide, soft)


def _unpacking(mode: Mode, scheme: Scheme | None, numbers: int) -> int:
    """Returns the bytes used while a piece of a packed matrix is unpacked, on the plain path or on a CPU."""
    if scheme is None or (mode.has_kernels and scheme != FP4_F32):
        return 0
    if mode.on_cpu and scheme in schemes("linear", "cpu"):
        return cpu.number(mode.dtype).itemsize * min(cpu.AT_ONCE, numbers) + DECODING * min(cpu_decode.DECODED, numbers)
    return scheme.unpacking_bytes * min(AT_ONCE, numbers)
