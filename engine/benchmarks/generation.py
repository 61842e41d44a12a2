"""Measures a loaded model: on its own tasks, or as it reads a prompt and writes token by token. Prints nothing.

Results are the records that ``safelight bench --json`` prints; times are medians over the runs.
"""

from __future__ import annotations

import random
import statistics
import time
from typing import Any

import torch

from engine.benchmarks.measuring import device_name, peak_memory_mb, percentile_95
from engine.catalog import MINI, SUDOKU
from engine.config import GenerationConfig
from engine.decoding.generate import generate
from engine.errors import SafelightError
from engine.events import CanvasCommitted, Event, GenerationFinished, PrefillFinished, StepFinished
from engine.layers.kv_cache import KVCache
from engine.models.model import Model
from engine.tasks import skills, sudoku

GENERIC = (
    "Write a short story about a lighthouse keeper who finds a letter.",
    "Explain how a bicycle stays upright, in five sentences.",
    "Write a Python function that returns the n-th Fibonacci number, with a docstring.",
    "List the planets of the solar system with one fact about each.",
    "A train leaves at 9:40 and arrives at 13:05. How long is the journey? Show your steps.",
)
WARM_UP = 4  # tokens written before what is timed


def prompts(model_name: str, count: int, seed: int) -> list[str]:
    """Returns the first ``count`` prompts of a model's workload.

    Sudokus with 30 to 50 givens for the Sudoku model, examples of its tasks for the skills model, else general ones,
    repeated.
    """
    if model_name == SUDOKU:
        rng = random.Random(seed)
        return [sudoku.to_prompt(sudoku.generate(rng, 30, 50).board) for _ in range(count)]
    asked = skills.examples() if model_name == MINI else GENERIC
    return [asked[index % len(asked)] for index in range(count)]


def measure(model: Model, runs: int = 10, seed: int = 0, config: GenerationConfig | None = None) -> dict[str, Any]:
    """Answers prompts of a model's workload, after a short run that warms up.

    Args:
        runs: prompts to answer, 1 or more.
        seed: of the prompts and of each run.
        config: sampler settings; None takes the model's own.

    Raises:
        SafelightError: a run fails.
    """
    settings = config or model.generation_defaults
    tasks = [model.chat_ids([{"role": "user", "content": prompt}]) for prompt in prompts(model.name, runs, seed)]
    cache = model.new_cache()  # one for all runs, since a step program belongs to its cache
    for _ in generate(model, tasks[0], settings.replace(max_new_tokens=1, max_denoising_steps=2), seed, cache=cache):
        pass
    events: list[Event] = []
    started = time.perf_counter()
    for ids in tasks:
        cache.truncate(0)  # prefill is timed in full
        events += generate(model, ids, settings, seed, cache=cache)
    seconds = time.perf_counter() - started
    prefill = [1e3 * event.seconds for event in events if isinstance(event, PrefillFinished)]
    steps = [1e3 * event.seconds for event in events if isinstance(event, StepFinished)]
    canvases = [event.steps for event in events if isinstance(event, CanvasCommitted)]
    tokens = sum(len(event.tokens) for event in events if isinstance(event, GenerationFinished))
    return {
        **_subject(model),
        "parameters": model.parameter_count,
        "prefill_ms": statistics.median(prefill),  # of a whole prompt
        "step_ms": {"median": statistics.median(steps), "p95": percentile_95(steps)},
        "steps_per_canvas": {"mean": statistics.fmean(canvases), "median": float(statistics.median(canvases))},
        "tokens_per_forward": tokens / len(steps),
        "tokens_per_second": tokens / seconds,  # prefill included
        "runs": runs,
    }


def measure_writing(model: Model, prompt_tokens: int, new_tokens: int, runs: int = 3) -> dict[str, Any]:
    """Reads ``prompt_tokens`` and writes ``new_tokens`` behind them, a token a pass, after a run that warms up.

    The likeliest token is taken each time, and end tokens do not end the text. So each run does the same work, which
    other programs can be asked for, too: it is that of llama.cpp's ``llama-bench -p P`` and ``-n N -d P``.

    Raises:
        SafelightError: the model has no positions for all tokens, or it cannot write so.
    """
    most = model.config.max_position_embeddings
    if prompt_tokens + 1 + new_tokens > most:
        raise SafelightError(
            f"{prompt_tokens} tokens of prompt and {new_tokens} new ones do not fit the {most} positions of "
            f"{model.name}; ask for fewer"
        )
    once = model.tokenizer.encode("\n".join(GENERIC) + "\n")
    prompt, cache = (once * -(-(prompt_tokens + 1) // len(once)))[: prompt_tokens + 1], model.new_cache()
    timed_run(model, prompt, min(WARM_UP, new_tokens), cache)
    rates = [timed_run(model, prompt, new_tokens, cache) for _ in range(runs)]
    return {
        **_subject(model),
        "precision": model.precision.as_dict(),
        "prompt_tokens": prompt_tokens,
        "new_tokens": new_tokens,
        "prefill_tokens_per_second": statistics.median(prefill for prefill, _ in rates),
        "decode_tokens_per_second": statistics.median(decode for _, decode in rates),
        "runs": runs,
    }


def timed_run(model: Model, prompt: list[int], new_tokens: int, cache: KVCache) -> tuple[float, float]:
    """Reads all of the prompt but its last token, then takes ``new_tokens`` passes of one token.

    Returns:
        The tokens per second of both, by the clock on the wall.

    Raises:
        SafelightError: the model cannot write token by token.
    """
    config = model.generation_defaults.replace(
        decoder="autoregressive",
        max_new_tokens=new_tokens,
        eos_token_ids=(),
        sampling_temperature=0.0,
        repetition_penalty=1.0,
        thinking_tokens=None,
        top_k=0,
    )
    cache.truncate(0)  # so that the whole prompt is read
    started = read = ended = time.perf_counter()
    for event in generate(model, prompt, config, cache=cache):
        if isinstance(event, PrefillFinished):
            read = time.perf_counter()
        elif isinstance(event, GenerationFinished):
            ended = time.perf_counter()
            if len(event.tokens) != new_tokens:
                raise SafelightError(f"{model.name} wrote {len(event.tokens)} tokens in place of {new_tokens}")
    return (len(prompt) - 1) / (read - started), new_tokens / (ended - read)


def _subject(model: Model) -> dict[str, Any]:
    memory, note = peak_memory_mb(model.device)
    return {
        "model": model.name,
        "device": device_name(model.device),
        "dtype": str(model.dtype).removeprefix("torch."),
        "threads": model.threads or torch.get_num_threads(),
        "load_seconds": model.load_seconds,
        "peak_memory_mb": memory,
        "peak_memory_note": note,
    }
