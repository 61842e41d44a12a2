"""A denoising pass of growing models with one thread and with all, on an idle machine and a busy one.

``python -m tests.bench.threads [--seconds 2]`` prints milliseconds a pass; ``engine.threads.LEAST_WORK`` was set by
it. Not a test: times depend on the machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from engine.layers.kv_cache import KVCache
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.threads import work_of
from tests.engine.tiny import network, tokens

WIDTHS = (64, 128, 192, 256, 384, 512, 768, 1024)
CANVAS, CONTEXT = 96, 160


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that do nothing but work."""
    working = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for process in working:
            process.kill()
            process.wait()


def pass_ms(made: DiffusionGemma, cache: KVCache, threads: int, seconds: float) -> float:
    """The median time of a denoising pass."""
    torch.set_num_threads(threads)
    canvas = tokens(CANVAS, seed=1)
    taken, ends = [], time.perf_counter() + seconds
    while time.perf_counter() < ends or len(taken) < 3:
        began = time.perf_counter()
        made.denoise(canvas, cache, None)
        taken.append(1000 * (time.perf_counter() - began))
    return statistics.median(taken[1:])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="that a figure takes")
    seconds = parser.parse_args().seconds
    cores = os.cpu_count() or 1
    print(f"{'':16}{'idle, threads':>25}{f'with {cores} busy ones':>25}")
    print(f"{'width':>6}{'work':>10}" + 2 * f"{'1':>9}{cores:>9}{'gain':>7}")
    for width in WIDTHS:
        made = network(
            hidden_size=width, intermediate_size=2 * width, moe_intermediate_size=width // 2, canvas_length=CANVAS,
            layers=network().config.layers * 2, vocab_size=128,
        )  # fmt: skip
        cache = made.new_cache()
        made.prefill(tokens(CONTEXT), cache)
        idle = [pass_ms(made, cache, threads, seconds) for threads in (1, cores)]
        with busy(cores):
            loaded = [pass_ms(made, cache, threads, seconds) for threads in (1, cores)]
        found = "".join(f"{one:>9.1f}{all_:>9.1f}{one / all_:>7.2f}" for one, all_ in (idle, loaded))
        print(f"{width:>6}{work_of(made.config) / 1e9:>8.2f} G{found}", flush=True)


if __name__ == "__main__":
    main()
