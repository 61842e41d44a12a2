"""Which layers an adapter may stand beside, what PEFT calls them, and adapters for all of them. Knows no files.

In transformers' DiffusionGemma the two modes are two stacks of modules that share their weights: ``model.encoder.
language_model`` reads text, ``model.decoder`` denoises. PEFT wraps each module by its own name, so that each mode may
have an adapter of its own over one weight. Here the weight is one layer, and its ``LayerAdapter`` has both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from engine.adapters.lora import LayerAdapter, LowRank, Rows
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.weights.safetensors import DECODER, ENCODER

Mode = Literal["causal", "denoise"]
Adapters = Mapping[str, LayerAdapter]
"""By our own module paths, such as ``layers.0.self_attn.q_proj``."""

CONDITIONING = "self_conditioning."
PATH = re.compile(
    r"layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)|self_conditioning\.(gate|up|down)_proj"
)
PREFIXES: tuple[tuple[str, Mode], ...] = ((ENCODER, "causal"), (DECODER, "denoise"))


class Place(NamedTuple):
    """A layer, by our own module path, in one mode."""

    path: str
    mode: Mode


class Size(NamedTuple):
    """Of a linear layer."""

    outputs: int
    inputs: int


def targets(network: DiffusionGemma) -> dict[str, nn.Module]:
    """The linear layers that may have an adapter, packed or not, by their paths."""
    return {path: module for path, module in network.named_modules() if PATH.fullmatch(path)}


def size_of(layer: nn.Module) -> Size:
    """The size of a linear layer, packed or not."""
    shape: Any = layer.weight.shape
    return Size(*shape)


def modes_of(path: str) -> tuple[Mode, ...]:
    """The modes in which a layer runs; self-conditioning sees canvases alone."""
    return ("denoise",) if path.startswith(CONDITIONING) else ("causal", "denoise")


def peft_name(place: Place) -> str:
    """transformers' name of the module."""
    return next(prefix for prefix, mode in PREFIXES if mode == place.mode) + place.path


def place_named(name: str) -> Place | None:
    """The layer and mode that transformers' name of a module stands for; None where there may be no adapter."""
    for prefix, mode in PREFIXES:
        path = name.removeprefix(prefix)
        if path != name and PATH.fullmatch(path) and mode in modes_of(path):
            return Place(path, mode)
    return None


def attach(network: DiffusionGemma, adapters: Adapters) -> list[RemovableHandle]:
    """Add adapters to the outputs of their layers from now on, until each handle's ``remove`` is called.

    The adapters' number type and device are those of the network's activations. They are not registered in the network:
    its parameters and its state stay what they were.
    """
    layers = targets(network)
    canvas = Rows()  # text=0, whatever runs through the layers at the time
    return [
        adapter.attach(layers[path], canvas if path.startswith(CONDITIONING) else network.rows)
        for path, adapter in adapters.items()
    ]


def new_adapters(
    network: DiffusionGemma, rank_denoise: int, rank_causal: int, generator: torch.Generator, scaling: float = 1.0
) -> dict[str, LayerAdapter]:
    """Fresh adapters for all targets, to be trained: they change nothing yet.

    Args:
        rank_denoise, rank_causal: of each mode's matrices; 0 for a mode without an adapter.
        generator: on the CPU; the ``down`` matrices are drawn from it, with variance 1 / inputs.
        scaling: of what they add; alpha / rank in PEFT's terms.

    Returns:
        Trainable modules in fp32 on the network's device.
    """
    ranks: dict[Mode, int] = {"causal": rank_causal, "denoise": rank_denoise}

    def fresh(layer: nn.Module, rank: int) -> LowRank:
        outputs, inputs = size_of(layer)
        made = LowRank(inputs, outputs, rank, scaling)
        with torch.no_grad():
            made.down.normal_(std=inputs**-0.5, generator=generator)
        return made.to(network.device)

    adapters = {}
    for path, layer in targets(network).items():
        by_mode = {mode: fresh(layer, ranks[mode]) for mode in modes_of(path) if ranks[mode]}
        if by_mode:
            adapters[path] = LayerAdapter(by_mode.get("causal"), by_mode.get("denoise"))
    return adapters
