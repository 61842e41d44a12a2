"""The number of threads that a pass takes on a CPU.

The threads of a pass wait for each other at each operation. On a small model they wait more than they compute. If a
busy process keeps one of them from its core, a pass takes tens of times as long as on one thread. Measured by ``python
-m tests.bench.threads``.
"""

from __future__ import annotations

from functools import cache

import torch

from engine.config import MAX_THREADS, ModelConfig
from engine.errors import SafelightError

LEAST_WORK = 4 * 10**9
"""Multiplications of a denoising pass from which several threads are used. On two cores, below 0.4 * 10**9 a second
thread gains nothing, at 2 * 10**9 a third. While other processes are busy, a pass up to there takes about twice as long
with it, and at times thirty times.
"""
LEAST_TOKEN_WORK = 3 * 10**8
"""The same of a pass over one token, for models that write token by token. Safelight Talk has 0.13 * 10**9: on two idle
cores 40 tokens take 1.7 s on one thread and 1.3 s on two; beside busy processes 1.8 s and 17 to 48 s.
"""


def work_of(config: ModelConfig) -> int:
    """Returns the number of multiplications by weights in a pass over a canvas; attention between its tokens is left
    out.
    """
    hidden, experts = config.hidden_size, config.num_experts
    used = experts if config.runs_all_experts else config.top_k_experts
    each = used * 3 * hidden * config.moe_intermediate_size + hidden * experts
    routed = sum(not layer.is_dense for layer in config.layers)
    wide = 3 * hidden * sum(map(config.dense_width, config.layers))
    own_values = [layer.is_sliding or not config.denoises for layer in config.layers]  # else keys also serve as values
    heads = sum(
        hidden * layer.head_dim * (2 * config.num_attention_heads + layer.num_key_value_heads * (1 + has_values))
        for layer, has_values in zip(config.layers, own_values, strict=True)
    )
    ends = config.vocab_size * hidden  # the head
    if config.denoises:
        ends += config.vocab_size * hidden + 3 * hidden * config.intermediate_size  # self-conditioning
    return config.canvas_length * (routed * each + wide + heads + ends)


def choose_threads(config: ModelConfig, asked: int = 0) -> int:
    """Returns the threads for a model's passes: as many as asked for, or, for 0, one or all by the work of a pass.

    Args:
        asked: 1 to ``MAX_THREADS``; 0 decides by the work. "All" means the machine's cores, or OMP_NUM_THREADS.

    Raises:
        SafelightError: ``asked`` is out of range.
    """
    if not 0 <= asked <= MAX_THREADS:
        raise SafelightError(f"the number of threads must be from 0 (by the model) to {MAX_THREADS}, not {asked}")
    every = available_threads()  # called even if not needed: before any pass changes torch's own number
    if config.denoises:
        is_large = work_of(config) >= LEAST_WORK
    else:
        is_large = work_of(config) >= LEAST_TOKEN_WORK * config.canvas_length
    return asked or (every if is_large else 1)


RETRY, MAX_RETRY = 32, 512  # passes before the number of threads that was slower is tried again


class Pace:
    """Chooses the threads of passes by what the last ones took: one, or all.

    Threads of a pass wait for each other. If another program takes one of their cores, a pass takes many times as long
    as on one core. So the slower number is tried now and then, ever more rarely until it is the faster one.
    """

    def __init__(self) -> None:
        self._seconds: dict[int, dict[int, float]] = {}  # of a pass, by its rows and threads
        self._passes, self._patience = 0, RETRY

    def choose(self, rows: int, most: int) -> int:
        """Returns 1 or ``most``, first those that were not tried."""
        by_threads = self._seconds.get(rows, {})
        takes_all = by_threads.get(most, 0.0) <= by_threads.get(1, 0.0)
        self._passes += 1
        if self._passes >= self._patience:
            self._passes, self._patience, takes_all = 0, min(MAX_RETRY, 2 * self._patience), not takes_all
        return most if takes_all else 1

    def record(self, rows: int, threads: int, seconds: float) -> None:
        """Records what a pass took. One slow pass among others of the faster number changes nothing."""
        by_threads = self._seconds.setdefault(rows, {})
        best = min(by_threads, key=by_threads.__getitem__, default=threads)
        before = by_threads.get(threads, seconds)
        by_threads[threads] = 0.85 * before + 0.15 * min(seconds, 2 * before) if threads == best else seconds
        if min(by_threads, key=by_threads.__getitem__) != best:
            self._passes, self._patience = 0, RETRY


@cache
def available_threads() -> int:
    """Returns torch's own number of threads, read before it is changed for the first time."""
    return torch.get_num_threads()


def use_threads(count: int) -> None:
    """Sets torch's number of threads from now on, in this thread and in those that have not computed yet."""
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)
