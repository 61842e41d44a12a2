"""Tools of measurements on a device: timing, its bandwidth, its memory, a network with random packed weights."""

from __future__ import annotations

import dataclasses
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import psutil
import torch

from engine.config import ModelConfig
from engine.errors import SafelightError
from engine.layers.packed_linear import PackedWeight, for_processor, install, packed_weights
from engine.memory.device import Placement
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import Precision

COPY_BYTES = 1 << 30  # size of the copy that measures memory bandwidth, on a GPU


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(device: torch.device, work: Callable[[], object], count: int) -> list[float]:
    """Returns the milliseconds of each of ``count`` runs, after one that warms up."""
    work()
    times = []
    for _ in range(count):
        wait(device)
        started = time.perf_counter()
        work()
        wait(device)
        times.append(1e3 * (time.perf_counter() - started))
    return times


def percentile_95(times: Sequence[float]) -> float:
    """Returns the 95th percentile: a measured value, not one between two."""
    return sorted(times)[int(0.95 * (len(times) - 1))]


def copy_bandwidth(device: torch.device) -> float:
    """Returns the bytes per second, read and written, of a large copy on the device."""
    size = COPY_BYTES if device.type == "cuda" else COPY_BYTES // 16
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / (statistics.median(timed(device, lambda: target.copy_(source), 5)) / 1e3)


def peak_memory_mb(device: torch.device) -> tuple[float, str]:
    """Returns the peak memory so far, in MB of 10**6 bytes, and what that number measures."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6, "allocated by torch on the device"
    if sys.platform == "win32":
        peak = psutil.Process().memory_info().peak_wset
        return int(peak) / 1e6, "peak working set of this process"
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, "resident memory of this process"


def device_name(device: torch.device) -> str:
    """Returns the device's display name."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return str(device)


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
