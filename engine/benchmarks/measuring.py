"""Tools of every measurement on a device: timing, its bandwidth, its memory, and a text before what is timed."""

from __future__ import annotations

import ctypes
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from engine import kernels
from engine.config import ModelConfig
from engine.errors import SafelightError
from engine.layers.kv_cache import KVCache
from engine.memory.plan import device_memory
from engine.models.network import Network
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


def bytes_of(module: nn.Module) -> int:
    return sum(tensor.nbytes for tensor in [*module.parameters(), *module.buffers()])


def require_context(context: int, config: ModelConfig, rows: int) -> None:
    """Checks the number of tokens before ``rows`` that are timed.

    Raises:
        SafelightError: it is negative, or the model has no positions for all.
    """
    most = config.max_position_embeddings - rows
    if not 0 <= context <= most:
        raise SafelightError(f"the context must be between 0 and {most} tokens for this shape, not {context}")


def prefilled(network: Network, context: int, rows: int) -> tuple[KVCache, float]:
    """Returns a cache of ``context`` tokens with room for ``rows`` more, and the milliseconds that prefill took.

    The context is one that ``require_context`` has let pass.
    """
    device, cache = network.device, network.new_cache()
    cache.reserve(context + rows)
    for _ in range(2 if device.type == "cuda" else 1):  # the first run builds its kernels
        cache.truncate(0)
        wait(device)
        started = time.perf_counter()
        for start in range(0, context, cache.piece):
            ids = torch.arange(start, min(start + cache.piece, context))
            network.prefill(ids % network.config.vocab_size, cache)
        wait(device)
        milliseconds = 1e3 * (time.perf_counter() - started)
    return cache, milliseconds


def forget_peak(device: torch.device) -> None:
    """Resets the peak, so that copying, building and the oracles do not count for a run."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def subject_figures(name: str, precision: Precision, device: torch.device, context: int) -> dict[str, Any]:
    """Returns the fields of a result that say what is measured, and where."""
    return {
        "shape": name,
        "device": device_name(device),
        "precision": precision.as_dict(),
        "context": context,
        "threads": 0 if device.type == "cuda" else torch.get_num_threads(),
        "plain_reason": kernels.why_plain(device),
    }


def memory_figures(device: torch.device, plan_bytes: int | None) -> dict[str, Any]:
    """Returns the fields of a result that are about memory."""
    memory, note = peak_memory_mb(device)
    taken = device_memory(device)
    return {
        "peak_memory_mb": memory,
        "peak_memory_note": note,
        "plan_bytes": plan_bytes,
        "peak_of_plan": 1e6 * memory / plan_bytes if memory and plan_bytes and device.type == "cpu" else None,
        "device_memory_mb": None if taken is None else taken[0] / 1e6,
    }


def peak_memory_mb(device: torch.device) -> tuple[float | None, str]:
    """Returns the peak memory so far, in MB of 10**6 bytes, and what that number measures, or why there is none."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6, "allocated by torch on the device"
    if sys.platform == "win32":
        return _windows_peak()
    try:
        import resource  # not on every system
    except ImportError:
        return None, f"{platform.system()} does not report the peak memory of a process"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e6, "resident memory of this process"


def _windows_peak() -> tuple[float | None, str]:
    """Returns PeakWorkingSetSize of this process, by psapi."""

    class Counters(ctypes.Structure):  # PROCESS_MEMORY_COUNTERS
        _fields_ = (
            ("cb", ctypes.c_uint32),
            ("page_faults", ctypes.c_uint32),
            ("peak_working_set", ctypes.c_size_t),
            *((f"other_{index}", ctypes.c_size_t) for index in range(7)),
        )

    try:
        windll: Any = ctypes.windll  # type: ignore[attr-defined, unused-ignore]
        current, query = windll.kernel32.GetCurrentProcess, windll.psapi.GetProcessMemoryInfo
        current.restype = ctypes.c_void_p
        query.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32)
        counters = Counters()
        counters.cb = ctypes.sizeof(counters)
        if not query(current(), ctypes.byref(counters), counters.cb):
            return None, "Windows did not report the peak working set"
        return int(counters.peak_working_set) / 1e6, "peak working set of this process"
    except (AttributeError, OSError) as error:
        return None, f"Windows did not report the peak working set ({error})"


def device_name(device: torch.device) -> str:
    """Returns the device's display name."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return str(device)
