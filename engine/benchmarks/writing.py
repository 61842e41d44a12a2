"""Measures how fast a loaded model reads a prompt of a given length, and writes behind it a token a pass.

The likeliest token is taken each time, and end tokens do not end the text. So each run does the same work, which other
programs can be asked for, too: it is that of llama.cpp's ``llama-bench -p P`` and ``-n N -d P``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from engine.benchmarks.generation import GENERIC
from engine.benchmarks.measuring import device_name, peak_memory_mb
from engine.decoding.generate import generate
from engine.errors import SafelightError
from engine.events import GenerationFinished, PrefillFinished
from engine.layers.kv_cache import KVCache
from engine.models.model import Model

WARM_UP = 4  # tokens written before what is timed


@dataclass(frozen=True)
class WritingRun:
    """The tokens per second of one run, by the clock on the wall."""

    prefill: float
    decode: float


@dataclass(frozen=True)
class WritingResult:
    """The measurements; rates are medians over the runs, in tokens per second."""

    model: str
    device: str
    dtype: str
    precision: dict[str, str | None]
    threads: int  # 0 on a GPU
    load_seconds: float
    prompt_tokens: int
    new_tokens: int
    prefill_tokens_per_second: float
    decode_tokens_per_second: float
    runs: list[WritingRun]
    peak_memory_mb: float | None  # of the process; on CUDA, of the device
    peak_memory_note: str  # what the number measures, or why there is none

    def as_dict(self) -> dict[str, Any]:
        """Returns the result as the command line prints it with ``--json``."""
        return asdict(self)


def measure_writing(
    model: Model,
    prompt_tokens: int,
    new_tokens: int,
    runs: int = 3,
    progress: Callable[[int, int], None] | None = None,
) -> WritingResult:
    """Reads and writes ``runs`` times, after a run that warms up.

    Args:
        model: from ``load_model``; any family that can write token by token.
        prompt_tokens: tokens that are read before the first pass that writes; 1 or more.
        new_tokens: passes that write; 1 or more.
        progress: called with the number of finished runs and of all runs.

    Raises:
        SafelightError: a number is below 1, the model has no positions for all tokens, or it cannot write so.
    """
    if min(prompt_tokens, new_tokens, runs) < 1:
        raise SafelightError("prompt tokens, new tokens and runs must each be 1 or more")
    most = model.config.max_position_embeddings
    if prompt_tokens + 1 + new_tokens > most:
        raise SafelightError(
            f"{prompt_tokens} tokens of prompt and {new_tokens} new ones do not fit the {most} positions of "
            f"{model.name}; ask for fewer"
        )
    prompt, cache = text_of(model, prompt_tokens + 1), model.new_cache()
    timed_run(model, prompt, min(WARM_UP, new_tokens), cache)
    found = []
    for index in range(runs):
        found.append(timed_run(model, prompt, new_tokens, cache))
        if progress is not None:
            progress(index + 1, runs)
    memory, note = peak_memory_mb(model.device)
    return WritingResult(
        model=model.name,
        device=device_name(model.device),
        dtype=str(model.dtype).removeprefix("torch."),
        precision=model.precision.as_dict(),
        threads=model.threads,
        load_seconds=model.load_seconds,
        prompt_tokens=prompt_tokens,
        new_tokens=new_tokens,
        prefill_tokens_per_second=statistics.median(run.prefill for run in found),
        decode_tokens_per_second=statistics.median(run.decode for run in found),
        runs=found,
        peak_memory_mb=memory,
        peak_memory_note=note,
    )


def text_of(model: Model, length: int) -> list[int]:
    """Returns exactly ``length`` tokens of plain text, the same each time."""
    once = model.tokenizer.encode("\n".join(GENERIC) + "\n")
    return (once * -(-length // len(once)))[:length]


def timed_run(model: Model, prompt: list[int], new_tokens: int, cache: KVCache) -> WritingRun:
    """Reads all of the prompt but its last token, then takes ``new_tokens`` passes of one token.

    Raises:
        SafelightError: the model cannot write token by token.
    """
    config = model.generation_defaults.replace(
        decoder="autoregressive",
        token_thoughts=False,
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
    return WritingRun(prefill=(len(prompt) - 1) / (read - started), decode=new_tokens / (ended - read))
