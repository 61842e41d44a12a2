"""A network of a shape with random packed weights, so that a step can be measured without a checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch

from engine.config import ModelConfig
from engine.errors import SafelightError
from engine.layers.packed_linear import PackedWeight, for_processor, install, packed_weights
from engine.memory.device import Placement
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import Precision

DRAWN_AT_ONCE = 1 << 24  # bytes of random codes

Report = Callable[[str], object]
"""Called with a few words on what has been done."""


def random_network(
    config: ModelConfig,
    precision: Precision,
    placement: Placement,
    seed: int = 0,
    report: Report = lambda _: None,
) -> DiffusionGemma:
    """Returns a DiffusionGemma of a shape with random weights and without vision; packed ones from random codes.

    Raises:
        SafelightError: the device has no room for it.
    """
    with torch.device("meta"):
        network = DiffusionGemma(dataclasses.replace(config, vision=None))
    install(network, precision, placement.dtype)
    try:
        network = network.to_empty(device=placement.device)
    except torch.OutOfMemoryError as error:
        raise SafelightError(f"{placement.device} has no room for these weights; see safelight plan") from error
    draws = torch.Generator(device=placement.device).manual_seed(seed)
    for index, block in enumerate(network.layers, 1):
        for weight in packed_weights(block):
            _draw(weight, draws)
        for_processor(block, placement.dtype)
        report(f"built {index} of {len(network.layers)} layers")
    layers = set(packed_weights(network.layers))
    for weight in packed_weights(network):
        if weight not in layers:
            _draw(weight, draws)
    for name, parameter in network.named_parameters():
        data = parameter.data = parameter.data.to(placement.dtype)
        if parameter.dim() > 1:
            data.normal_(std=parameter.shape[-1] ** -0.5, generator=draws)
        else:
            data.fill_(parameter.shape[0] ** -0.25 if name.endswith(("q_norm.weight", "k_norm.weight")) else 1.0)
    return network.requires_grad_(False).eval()


def _draw(weight: PackedWeight, draws: torch.Generator) -> None:
    """Fills a packed weight with random codes, eight at a time, and scales."""
    for piece in torch.split(weight.codes.view(-1), DRAWN_AT_ONCE):
        eights = torch.empty(-(-len(piece) // 8), dtype=torch.int64, device=piece.device)
        eights.random_(-(2**63), None, generator=draws)
        piece.copy_(eights.view(piece.dtype)[: len(piece)])
        if piece.dtype == torch.int8:
            piece.clamp_(min=-127)
    # all different, so that a kernel that uses another weight's scale gives a wrong result
    *outer, rows, inputs = weight.shape
    groups = inputs // (weight.scheme.group_size or inputs)
    scales = torch.empty(*outer, groups, rows, device=weight.codes.device).uniform_(0.5, 1.5, generator=draws)
    size = inputs**-0.5 / weight.scheme.spread
    if weight.matrix_scales is None:
        scales *= size
    else:
        weight.matrix_scales.uniform_(0.5, 1.5, generator=draws).mul_(size)
    weight.scales.copy_(weight.scheme.store_scales(scales.transpose(-1, -2)))
