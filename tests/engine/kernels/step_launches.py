"""Counts the kernel launches of a denoising step on a card, without a card and without the model's memory."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass

import torch

from engine import kernels
from engine.config import GenerationConfig, LayerConfig, ModelConfig
from engine.decoding.step_program import StepProgram
from engine.errors import SafelightError
from engine.layers.kv_cache import KVCache
from engine.layers.packed_linear import install
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import Precision
from tests.engine.kernels.launches import counting


@dataclass(frozen=True)
class StepLaunches:
    """Launches of one step, as a graph replays it."""

    step: int
    commit_and_step: int  # of a canvas's first step, which commits the canvas before
    layers: dict[str, int]  # kind of layer -> launches of one layer, the larger number of the two steps
    names: dict[str, int]  # of the plain step: kernel or torch operation -> how often


def step_launches(config: ModelConfig, precision: Precision) -> StepLaunches:
    """Counts the launches of a shape's step on a card with ``linear_w8a16.PROCESSORS`` multiprocessors.

    Raises:
        SafelightError: Triton is not installed.
    """
    if (reason := kernels.why_plain(torch.device("meta"))) is not None:
        raise SafelightError(f"launches cannot be counted: {reason}")
    plain, commits = (_count(config, precision, commits) for commits in (False, True))
    layers: dict[str, int] = {}
    for layer in dict.fromkeys(config.layers):
        layers[layer.kind] = max(_of_layer(config, layer, precision, commits) for commits in (False, True))
    return StepLaunches(plain.total(), commits.total(), layers, dict(plain.most_common()))


def _of_layer(config: ModelConfig, layer: LayerConfig, precision: Precision, commits: bool) -> int:
    """Returns how many launches one more layer costs."""
    one, two = (
        _count(dataclasses.replace(config, layers=count * (layer,)), precision, commits).total() for count in (1, 2)
    )
    return two - one


def empty(config: ModelConfig, precision: Precision) -> tuple[DiffusionGemma, KVCache]:
    """Returns a network of a shape on the meta device, and a cache with room for two canvases."""
    with torch.device("meta"):
        network = DiffusionGemma(config)
        install(network, precision, torch.bfloat16)
    for parameter in network.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    cache = network.requires_grad_(False).new_cache()
    cache.reserve(2 * config.canvas_length)
    return network, cache


@torch.inference_mode()
def _count(config: ModelConfig, precision: Precision, commits: bool) -> Counter[str]:
    network, cache = empty(config, precision)
    program = StepProgram(network, cache, config.canvas_length)
    canvas = torch.zeros(config.canvas_length, dtype=torch.long)
    program.begin(canvas, None, GenerationConfig(), canvas if commits else None)
    for _ in range(2):  # the first step also makes what later ones reuse
        with counting() as found:
            program.run_step(commits)
    return found
