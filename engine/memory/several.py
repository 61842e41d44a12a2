"""What a further run takes of the device beside those under way.

It has a cache of its own, and where steps are programs (see ``decoding.step_batch``) one of those. The pass that
several share has their rows at once: up to a canvas and a canvas to commit of each. By kernels each program keeps a
graph of its own steps, with memory of its own, and passes of several that repeat are kept as graphs, too.
"""

from __future__ import annotations

import dataclasses

from engine.config import GenerationConfig, ModelConfig
from engine.layers.kv_cache import KERNEL_PIECE, PIECE, cache_bytes
from engine.memory import footprint
from engine.memory.footprint import Mode


def program_bytes(config: ModelConfig, mode: Mode, length: int | None = None, top_k: int = 0) -> int:
    """Bytes that a step program keeps on the device from step to step; ``length``: of the canvas, None: the model's."""
    length = config.canvas_length if length is None else length
    # Two rows of ids, their offsets, four of tokens, the argmax before; pins; entropies; likeliest tokens and shares.
    of_position = (2 + 2 + 4 + 1) * 8 + 4 + 4 + min(top_k, config.vocab_size) * (8 + 4)
    kinds = len({layer.kind for layer in config.layers})
    counters, knobs, flags = (1 + 1 + 2 + 1) * 8, 6 * 4, 2 * 4
    rows = 2 * config.hidden_size * mode.dtype.itemsize  # the soft embedding, and what the last step predicted from
    return length * (of_position + rows) + counters + knobs + flags + kinds * 8


def joint_workspace(config: ModelConfig, mode: Mode, context: int, runs: int) -> int:
    """The most that a pass of ``runs`` runs holds beside weights, caches and programs; ``context`` is the longest.

    By kernels that is the pass as it is taken at once, all committing a canvas, and what the graph of one keeps in
    which none does. Where a run is alone nothing is joined: 0.
    """
    if runs < 2:
        return 0
    rows = runs * config.canvas_length
    if mode.has_kernels:
        stage, hidden = footprint.kernel_stage(config, mode, runs), rows * config.hidden_size * mode.dtype.itemsize
        layers = (footprint.kernel_pass(config, mode, count, is_joint=True) for count in (2 * rows, rows))
        return sum(max(held, stage) + hidden for held in layers)
    layers_held = footprint.rows_pass(config, mode, context, 2 * rows, 2 * config.canvas_length)
    return max(layers_held, footprint.vocabulary_stage(config, mode, runs)[1])


def further_run(config: ModelConfig, mode: Mode, context: int, running: int) -> int:
    """Bytes that one run more takes beside ``running`` others, with ``context`` tokens of text before its last canvas.

    A plan counts the first run: see ``footprint.parts``. For weights that are packed, or experts that kernels run.
    """
    canvas, piece = config.canvas_length, PIECE if mode.on_cpu else KERNEL_PIECE
    cache, graph = cache_bytes(config, context + canvas, mode.dtype.itemsize, piece), 0
    if mode.has_kernels:
        graph = max(footprint.kernel_pass(config, mode, 2 * canvas), footprint.kernel_stage(config, mode))
    before = joint_workspace(config, mode, context, running)
    if running == 1 and not mode.has_kernels:  # the run alone holds as much in its own passes
        before = max(footprint.layer_pass(config, mode, context), footprint.vocabulary_stage(config, mode)[1])
    grown = joint_workspace(config, mode, context, running + 1) - before
    return cache + program_bytes(config, mode) + graph + max(0, grown)


def plain_run(config: ModelConfig, mode: Mode, context: int) -> int:
    """Bytes that a run takes on the plain path, alone or with its rows beside others'; ``context`` as above."""
    cache = cache_bytes(
        config, context + config.canvas_length, mode.dtype.itemsize, PIECE if mode.on_cpu else KERNEL_PIECE
    )
    stays, stage = footprint.vocabulary_stage(config, mode)
    return cache + stays + max(stage, footprint.layer_pass(config, mode, context))


def run_bytes(
    config: ModelConfig, mode: Mode, is_program: bool, prompt: int, settings: GenerationConfig, running: int
) -> int:
    """Bytes that a run takes at most, with a prompt of so many tokens, beside ``running`` others."""
    canvas = settings.canvas_length or config.canvas_length
    blocks = min(-(-settings.max_new_tokens // canvas), (config.max_position_embeddings - prompt) // canvas)
    context = prompt + max(0, blocks - 1) * canvas
    shape = dataclasses.replace(config, canvas_length=canvas)
    return further_run(shape, mode, context, running) if is_program else plain_run(shape, mode, context)
