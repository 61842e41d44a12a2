"""Tools of every measurement on a device: timing, its bandwidth, its memory."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence

import psutil
import torch

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
