"""Measures a loaded model on its own tasks: time of a denoising step, steps per canvas, memory. Prints nothing.

Times come from the events of real runs; loading is timed by ``load_model``. One short run warms up beforehand.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from engine.benchmarks.measuring import device_name, peak_memory_mb
from engine.catalog import SKILLS, SUDOKU
from engine.config import GenerationConfig
from engine.decoding.generate import generate
from engine.errors import SafelightError
from engine.events import CanvasCommitted, Event, GenerationFinished, PrefillFinished, StepFinished
from engine.models.model import Model
from engine.tasks import skills, sudoku

GENERIC = (
    "Write a short story about a lighthouse keeper who finds a letter.",
    "Explain how a bicycle stays upright, in five sentences.",
    "Write a Python function that returns the n-th Fibonacci number, with a docstring.",
    "List the planets of the solar system with one fact about each.",
    "A train leaves at 9:40 and arrives at 13:05. How long is the journey? Show your steps.",
)

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class BenchResult:
    """The measurements; ``None`` for what this machine does not report."""

    model: str
    device: str
    dtype: str
    threads: int
    parameters: int
    load_seconds: float
    prefill_ms: float  # median, of a whole prompt
    step_ms_median: float
    step_ms_p95: float
    steps_per_canvas_mean: float
    steps_per_canvas_median: float
    tokens_per_forward: float  # mean over all runs: tokens ÷ denoising steps
    tokens_per_second: float  # tokens ÷ time, prefill included
    peak_memory_mb: float | None  # of the process; on CUDA, of the device
    peak_memory_note: str  # what the number measures, or why there is none
    runs: int

    def as_dict(self) -> dict[str, Any]:
        """Returns the result as the command line prints it with ``--json``."""
        return {
            "model": self.model,
            "device": self.device,
            "dtype": self.dtype,
            "threads": self.threads,
            "parameters": self.parameters,
            "load_seconds": self.load_seconds,
            "prefill_ms": self.prefill_ms,
            "step_ms": {"median": self.step_ms_median, "p95": self.step_ms_p95},
            "steps_per_canvas": {"mean": self.steps_per_canvas_mean, "median": self.steps_per_canvas_median},
            "tokens_per_forward": self.tokens_per_forward,
            "tokens_per_second": self.tokens_per_second,
            "peak_memory_mb": self.peak_memory_mb,
            "runs": self.runs,
        }


def prompts(model_name: str, count: int, seed: int) -> list[str]:
    """Returns the first ``count`` prompts of a model's workload.

    Sudokus with 30 to 50 givens for the Sudoku model, held-out tasks for the skills model, else a fixed list, repeated.
    """
    rng = random.Random(seed)
    if model_name == SUDOKU:
        return [sudoku.to_prompt(sudoku.generate(rng, 30, 50).board) for _ in range(count)]
    if model_name == SKILLS:
        return [skills.sample(rng, "test").prompt for _ in range(count)]
    return [GENERIC[index % len(GENERIC)] for index in range(count)]


def measure(
    model: Model,
    runs: int = 10,
    seed: int = 0,
    config: GenerationConfig | None = None,
    progress: Progress | None = None,
) -> BenchResult:
    """Runs a model's workload and measures it.

    Args:
        model: from ``load_model``.
        runs: prompts to answer, 1 or more.
        seed: of the prompts and of each run.
        config: sampler settings; None takes the model's own.
        progress: called with the number of finished runs and of all runs.

    Raises:
        SafelightError: ``runs`` is below 1, or a run fails.
    """
    if runs < 1:
        raise SafelightError(f"the number of runs must be 1 or more, not {runs}")
    settings = config or model.generation_defaults
    tasks = [model.chat_ids([{"role": "user", "content": prompt}]) for prompt in prompts(model.name, runs, seed)]
    cache = model.new_cache()  # one for all runs, since a step program belongs to its cache
    for _ in generate(model, tasks[0], settings.replace(max_new_tokens=1, max_denoising_steps=2), seed, cache=cache):
        pass  # warms up

    events: list[Event] = []
    seconds = 0.0
    for index, ids in enumerate(tasks):
        cache.truncate(0)  # prefill is timed in full
        started = time.perf_counter()
        found = list(generate(model, ids, settings, seed, cache=cache))
        seconds += time.perf_counter() - started
        events += found
        if progress is not None:
            progress(index + 1, runs)

    memory, memory_note = peak_memory_mb(model.device)
    return BenchResult(
        model=model.name,
        device=device_name(model.device),
        dtype=str(model.placement.dtype).removeprefix("torch."),
        threads=torch.get_num_threads(),
        parameters=model.parameter_count,
        load_seconds=model.load_seconds,
        peak_memory_mb=memory,
        peak_memory_note=memory_note,
        runs=runs,
        **_figures(events, seconds),
    )


def _figures(events: Sequence[Event], seconds: float) -> dict[str, float]:
    """Returns the fields of the result that come from the events of all runs, which took ``seconds``."""
    prefill = [event.seconds for event in events if isinstance(event, PrefillFinished)]
    steps = [event.seconds for event in events if isinstance(event, StepFinished)]
    canvases = [event.steps for event in events if isinstance(event, CanvasCommitted)]
    tokens = sum(len(event.tokens) for event in events if isinstance(event, GenerationFinished))
    return {
        "prefill_ms": 1000 * statistics.median(prefill),
        "step_ms_median": 1000 * statistics.median(steps),
        "step_ms_p95": 1000 * float(np.percentile(steps, 95)),
        "steps_per_canvas_mean": statistics.fmean(canvases),
        "steps_per_canvas_median": float(statistics.median(canvases)),
        "tokens_per_forward": tokens / len(steps),
        "tokens_per_second": tokens / seconds,
    }
