"""Measures how much faster several runs at once are than one after the other. Prints nothing.

Each of the parallel runs answers all of the prompts, one after the other, so that all have the same work and end
together. The numbers of runs are measured in turn and several times, so that other load on the machine affects all of
them. Ratios are within a turn; their medians are given.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.benchmarks.generation import prompts
from engine.benchmarks.measuring import device_name
from engine.config import GenerationConfig
from engine.decoding.generate import decode
from engine.decoding.protocols import Pass
from engine.decoding.run import Run
from engine.decoding.together import perform_together
from engine.errors import SafelightError
from engine.events import CanvasCommitted, Event, StepFinished
from engine.layers.kv_cache import KVCache
from engine.models.model import Model

ROUNDS = 5  # turns of each number, after one that warms up
MOST_AT_ONCE = 64


@dataclass(frozen=True)
class AtOnce:
    """The results of this number of runs at once; medians over the rounds."""

    runs: int
    tokens_per_second: float  # of all runs together
    steps_per_second: float
    run_seconds: float  # median, from a run's beginning to its end
    ratio: float  # work done in a second, divided by that of one run at a time


@dataclass(frozen=True)
class ParallelResult:
    model: str
    device: str
    threads: int  # CPU threads of a pass; 0 on a GPU
    prompts: int
    rounds: int
    rows: tuple[AtOnce, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns the result as the command line prints it with ``--json``."""
        raw = dataclasses.asdict(self)
        raw["parallel"] = list(raw.pop("rows"))
        return raw


@dataclass(eq=False)
class _Lane:
    """One of the parallel runs, and the prompts that it answers next."""

    places: list[int]
    cache: KVCache
    items: Iterable[Event | Pass] = ()
    started: float = 0.0
    wanted: Pass | None = None


@dataclass
class _Turn:
    tokens: int = 0
    steps: int = 0
    seconds: float = 0.0
    each: list[float] = field(default_factory=list)  # seconds of its runs

    def advance(self, lane: _Lane) -> bool:
        """Runs a lane to its next pass; False if its run has ended."""
        for item in lane.items:
            if isinstance(item, Pass):
                lane.wanted = item
                return True
            self.steps += isinstance(item, StepFinished)
            self.tokens += item.text_length if isinstance(item, CanvasCommitted) else 0
        self.each.append(time.perf_counter() - lane.started)
        return False


def measure_parallel(
    model: Model,
    most: int,
    runs: int = 10,
    seed: int = 0,
    config: GenerationConfig | None = None,
    rounds: int = ROUNDS,
) -> ParallelResult:
    """Answers prompts one at a time, two at a time and so on, up to ``most`` at a time.

    Args:
        model: from ``load_model``.
        most: 1 or more.
        runs: number of prompts.
        seed: of the prompts and of each run.
        config: sampler settings; None takes the model's own.

    Raises:
        SafelightError: a number is out of range, or a run fails.
    """
    if not 1 <= most <= MOST_AT_ONCE:
        raise SafelightError(f"the runs at once must be from 1 to {MOST_AT_ONCE}, not {most}")
    if runs < 1:
        raise SafelightError(f"the number of runs must be 1 or more, not {runs}")
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
    """Returns 1, 2, 4 and so on, and ``most``."""
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


def _answer(
    model: Model,
    tasks: Sequence[Sequence[int]],
    settings: GenerationConfig,
    seed: int,
    caches: Sequence[KVCache],
) -> _Turn:
    """Answers all prompts with each cache, each beginning with another prompt; so all end at the same time."""
    turn, count = _Turn(), len(tasks)
    lanes = [
        _Lane([(place + lane * count // len(caches)) % count for place in range(count)], cache)
        for lane, cache in enumerate(caches)
    ]

    def begin(lane: _Lane) -> bool:
        if not lane.places:
            return False
        place, lane.started = lane.places.pop(0), time.perf_counter()
        lane.cache.truncate(0)  # so that each run reads its whole prompt
        lane.items = decode(Run.from_ids(model, tasks[place], settings, seed + place, cache=lane.cache))
        return True

    started = time.perf_counter()
    for lane in lanes:
        begin(lane)
    while lanes:
        lanes = [lane for lane in lanes if turn.advance(lane) or (begin(lane) and turn.advance(lane))]
        perform_together(model, [lane.wanted for lane in lanes if lane.wanted is not None])
    turn.seconds = time.perf_counter() - started
    return turn
