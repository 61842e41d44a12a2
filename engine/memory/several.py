"""The memory that a further run takes of a device next to running ones.

A run has its own cache, and its own programs if steps are programs (see ``decoding.step_batch``), one for each length
of its canvases. A pass that several runs share holds the rows of all: up to a canvas and a canvas to commit of each.
With kernels the programs of a cache keep graphs of their own steps in one memory, that of the longest; repeated passes
of several runs are kept as graphs, too.
"""

from __future__ import annotations

import dataclasses

from engine.config import GenerationConfig, ModelConfig
from engine.memory import footprint
from engine.memory.footprint import Mode


def program_bytes(config: ModelConfig, mode: Mode, top_k: int = 0) -> int:
    """Returns bytes that a step program keeps on the device from step to step."""
    # Two rows of ids, their offsets, four of tokens, the argmax before; pins; entropies; kept places; likeliest
    # tokens and shares.
    of_position = (2 + 2 + 4 + 1) * 8 + 4 + 4 + 1 + min(top_k, config.vocab_size) * (8 + 4)
    kinds = len({layer.kind for layer in config.layers})
    counters, knobs, flags = (1 + 1 + 2 + 1) * 8, 8 * 4, 2 * 4
    rows = 2 * config.hidden_size * mode.dtype.itemsize  # the soft embedding, and what the last step predicted from
    return config.canvas_length * (of_position + rows) + counters + knobs + flags + kinds * 8


def joint_workspace(config: ModelConfig, mode: Mode, context: int, runs: int) -> int:
    """Returns the most that a pass of ``runs`` runs holds besides weights, caches and programs.

    ``context`` is the longest. With kernels this is the first pass, in which all runs commit a canvas, and the memory
    of a graph of one in which none does. For a single run nothing is joined: 0.
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
    """Returns the bytes that one run more takes with ``running`` others.

    A plan counts the first run: see ``footprint.parts``. For packed weights, or experts that kernels run.

    context: tokens of text before the run's last canvas.
    """
    graph = 0
    if mode.has_kernels:
        layers = footprint.kernel_pass(config, mode, 2 * config.canvas_length)
        graph = max(layers, footprint.kernel_stage(config, mode))
    before = joint_workspace(config, mode, context, running)
    if running == 1 and not mode.has_kernels:  # a single run holds as much in its own passes
        before = max(footprint.layer_pass(config, mode, context), footprint.vocabulary_stage(config, mode)[1])
    grown = joint_workspace(config, mode, context, running + 1) - before
    programs = footprint.PROGRAM_CANVASES * program_bytes(config, mode) + graph
    return footprint.text_cache(config, mode, context) + programs + max(0, grown)


def plain_run(config: ModelConfig, mode: Mode, context: int) -> int:
    """Returns the bytes that a run takes on the plain path, alone or joined with others; ``context`` as above."""
    stays, stage = footprint.vocabulary_stage(config, mode)
    passing = max(stage, footprint.layer_pass(config, mode, context))
    return footprint.text_cache(config, mode, context) + stays + passing


def run_bytes(
    config: ModelConfig, mode: Mode, is_program: bool, prompt: int, settings: GenerationConfig, running: int
) -> int:
    """Returns the bytes that a run takes at most, with a prompt of ``prompt`` tokens, next to ``running`` others."""
    own = config.canvas_length
    canvas = settings.canvas(own) if config.denoises else settings.canvas_length or own
    blocks = min(-(-settings.max_new_tokens // canvas), (config.max_position_embeddings - prompt) // canvas)
    context = prompt + max(0, blocks - 1) * canvas
    shape = dataclasses.replace(config, canvas_length=canvas)
    return further_run(shape, mode, context, running) if is_program else plain_run(shape, mode, context)
