"""What reading and writing token by token is measured on; not how fast it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engine import SKILLS, Model, SafelightError, load_model
from engine.benchmarks import writing
from engine.benchmarks.writing import measure_writing, text_of
from engine.events import Event, GenerationFinished, PrefillFinished, StepFinished


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(SKILLS, device="cpu")


def test_each_run_reads_all_and_writes_a_token_a_pass(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    real, runs = writing.generate, list[list[Event]]()

    def recorded(*arguments: Any, **named: Any) -> Iterator[Event]:
        runs.append([])
        for event in real(*arguments, **named):
            runs[-1].append(event)
            yield event

    monkeypatch.setattr(writing, "generate", recorded)
    seen: list[tuple[int, int]] = []
    result = measure_writing(model, 20, 6, runs=2, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(1, 2), (2, 2)]
    assert len(runs) == 3, "one warms up"
    for events, passes in zip(runs, (writing.WARM_UP, 6, 6), strict=True):
        read = [event for event in events if isinstance(event, PrefillFinished)]
        assert [(event.prompt_tokens, event.reused_tokens) for event in read] == [(21, 0)]
        assert sum(isinstance(event, StepFinished) for event in events) == passes
    written = [event.tokens.tolist() for events in runs for event in events if isinstance(event, GenerationFinished)]
    assert [len(tokens) for tokens in written] == [writing.WARM_UP, 6, 6]
    assert written[1] == written[2]
    assert (result.prompt_tokens, result.new_tokens, result.threads) == (20, 6, model.threads)
    assert min(run.prefill for run in result.runs) <= result.prefill_tokens_per_second
    assert min(run.decode for run in result.runs) <= result.decode_tokens_per_second


def test_rates_are_tokens_over_seconds(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter((10.0, 12.0, 17.0))  # the start, the prompt is read, all is written

    class Clock:
        @staticmethod
        def perf_counter() -> float:
            return next(ticks)

    monkeypatch.setattr(writing, "time", Clock)
    run = writing.timed_run(model, text_of(model, 21), 5, model.new_cache())
    assert (run.prefill, run.decode) == (20 / 2, 5 / 5)


def test_the_text_is_as_long_as_asked(model: Model) -> None:
    once = text_of(model, 40)
    assert len(once) == 40
    assert text_of(model, 400)[:40] == once


@pytest.mark.parametrize("numbers", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_nothing_to_do_is_an_error(model: Model, numbers: tuple[int, int, int]) -> None:
    with pytest.raises(SafelightError, match="must each be 1 or more"):
        measure_writing(model, *numbers)


def test_what_does_not_fit_is_an_error(model: Model) -> None:
    most = model.config.max_position_embeddings
    with pytest.raises(SafelightError, match=f"do not fit the {most} positions"):
        measure_writing(model, most - 4, 4)
