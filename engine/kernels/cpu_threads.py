"""Work shared out among torch's threads in large parts: they wait for each other once, and not at every operation.

Beside a busy process, where one of them is without its core for a while, that is tens of times as fast. Each thread has
memory of its own from malloc, which keeps what it frees: ``give_back`` returns it.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import pairwise
from typing import TypeVar

import torch

Result = TypeVar("Result")


def share(work: Callable[[range], Result], parts: Sequence[range]) -> list[Result]:
    """What ``work`` makes of each part, in order, without gradients. Inside, torch has one thread for each part."""
    inference = torch.is_inference_mode_enabled()

    def take(part: range) -> Result:
        with torch.no_grad(), torch.inference_mode() if inference else nullcontext():
            return work(part)

    if len(parts) == 1:
        return [take(parts[0])]
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(len(parts), "safelight", initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(take, parts))
    finally:
        torch.set_num_threads(threads)  # also of threads to come


def even(count: int, unit: int = 1) -> list[range]:
    """0 to ``count`` in one part a thread, about as large, that begin at multiples of ``unit``."""
    units = -(-count // unit)
    threads = min(torch.get_num_threads(), units)
    edges = [min(count, units * index // threads * unit) for index in range(threads + 1)]
    return [range(start, end) for start, end in pairwise(edges)]


@functools.cache
def _trimming() -> Callable[[int], object] | None:
    """glibc's own; None where there is another malloc."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


def give_back() -> None:
    """Return to the system what malloc keeps of freed memory; 4 ms beside a model of gigabytes."""
    trim = _trimming()
    if trim is not None:
        trim(0)
