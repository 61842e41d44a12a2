"""Measures how much faster several runs at once are than one after the other. Prints nothing.

Each number of runs at once answers the same prompts, in turn with the others and several times over, so that a machine
that is busy for a while is so for all of them; ratios are of one turn, and medians of those are told.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.benchmarks.generation import device_name, prompts
from engine.config import GenerationConfig
from engine.decoding.generate import generating
from engine.decoding.protocols import Decoding, Pass
from engine.decoding.together import perform_together
from engine.errors import SafelightError
from engine.events import GenerationFinished, StepFinished
from engine.layers.kv_cache import KVCache
from engine.models.model import Model

ROUNDS = 5  # turns of each number, after one that warms up
MOST_AT_ONCE = 64


@dataclass(frozen=True)
class AtOnce:
    """So many runs at once; medians over the rounds."""

    runs: int
    tokens_per_second: float  # of all runs together
    steps_per_second: float
    run_seconds: float  # median, from a run's beginning to its end
    ratio: float  # of steps per second, to one run at a time


@dataclass(frozen=True)
class ParallelResult:
    """What was measured."""

    model: str
    device: str
    threads: int  # of the processor that a pass takes; 0 on a GPU
    prompts: int
    rounds: int
    rows: tuple[AtOnce, ...]

    def as_dict(self) -> dict[str, Any]:
        """The result as the command line prints it with ``--json``."""
        return {
            "model": self.model,
            "device": self.device,
            "threads": self.threads,
            "prompts": self.prompts,
            "rounds": self.rounds,
            "parallel": [
                {
                    "runs": row.runs,
                    "tokens_per_second": row.tokens_per_second,
                    "steps_per_second": row.steps_per_second,
                    "run_seconds": row.run_seconds,
                    "ratio": row.ratio,
                }
                for row in self.rows
            ],
        }


@dataclass
class _Turn:
    """What one turn came to."""

    tokens: int
    steps: int
    seconds: float
    each: list[float]  # seconds of its runs


def measure_parallel(
    model: Model,
    most: int,
    runs: int = 16,
    seed: int = 0,
    config: GenerationConfig | None = None,
    rounds: int = ROUNDS,
) -> ParallelResult:
    """Answer prompts one at a time, two at a time and so on, up to ``most`` at a time.

    Args:
        model: from ``load_model``.
        most: 1 or more.
        runs: prompts of a turn; at least ``most``.
        seed: of the prompts and of each run.
        config: sampler settings; None takes the model's own.

    Raises:
        SafelightError: a number is out of range, or a run fails.
    """
    if not 1 <= most <= MOST_AT_ONCE:
        raise SafelightError(f"the runs at once must be from 1 to {MOST_AT_ONCE}, not {most}")
    if runs < most:
        raise SafelightError(f"{most} runs at once need as many prompts; --runs is {runs}")
    settings = config or model.generation_defaults
    tasks = [model.chat_ids([{"role": "user", "content": prompt}]) for prompt in prompts(model.name, runs, seed)]
    caches = [model.new_cache() for _ in range(most)]
    counts = numbers(most)
    turns: dict[int, list[_Turn]] = {count: [] for count in counts}
    for number in range(rounds + 1):
        for count in counts:
            turn = _answer(model, tasks, settings, seed, caches[:count])
            if number:
                turns[count].append(turn)
    return ParallelResult(
        model=model.name,
        device=device_name(model.device),
        threads=model.threads,
        prompts=runs,
        rounds=rounds,
        rows=tuple(_row(count, turns[count], turns[1]) for count in counts),
    )


def numbers(most: int) -> list[int]:
    """1, 2, 4 and so on, and ``most``."""
    return [*(power for power in (2**place for place in range(most.bit_length())) if power < most), most]


def _row(count: int, turns: Sequence[_Turn], single: Sequence[_Turn]) -> AtOnce:
    rates = [turn.steps / turn.seconds for turn in turns]
    ones = [turn.steps / turn.seconds for turn in single]
    return AtOnce(
        runs=count,
        tokens_per_second=statistics.median(turn.tokens / turn.seconds for turn in turns),
        steps_per_second=statistics.median(rates),
        run_seconds=statistics.median(seconds for turn in turns for seconds in turn.each),
        ratio=statistics.median(rate / one for rate, one in zip(rates, ones, strict=True)),
    )


@dataclass(eq=False)
class _Run:
    items: Decoding[None]
    cache: KVCache
    started: float
    wanted: Pass | None = None


def _answer(
    model: Model, tasks: Sequence[Sequence[int]], settings: GenerationConfig, seed: int, caches: Sequence[KVCache]
) -> _Turn:
    """Answer all prompts, as many at a time as there are caches: the next begins where one has ended."""
    turn, free, waiting, running = _Turn(0, 0, 0.0, []), list(caches), list(enumerate(tasks)), list[_Run]()
    started = time.perf_counter()
    while waiting or running:
        while waiting and free:
            (place, ids), cache = waiting.pop(0), free.pop()
            cache.truncate(0)  # all is read by each
            running.append(
                _Run(generating(model, ids, settings, seed + place, cache=cache), cache, time.perf_counter())
            )
        for run in list(running):
            run.wanted = None
            for item in run.items:
                if isinstance(item, Pass):
                    run.wanted = item
                    break
                turn.steps += isinstance(item, StepFinished)
                turn.tokens += len(item.tokens) if isinstance(item, GenerationFinished) else 0
            if run.wanted is None:
                running.remove(run)
                free.append(run.cache)
                turn.each.append(time.perf_counter() - run.started)
        if running:
            perform_together(model, [run.wanted for run in running if run.wanted is not None])
    turn.seconds = time.perf_counter() - started
    return turn
