"""The bench of a model measures and says what it should; not how fast anything is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engine import MINI, SUDOKU, GenerationConfig, Model, SafelightError, load_model
from engine.benchmarks import generation
from engine.benchmarks.generation import measure, measure_writing, prompts, timed_run
from engine.events import Event, GenerationFinished, PrefillFinished, StepFinished
from engine.tasks import skills, sudoku


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(MINI, device="cpu")


def test_a_result_adds_up(model: Model) -> None:
    config = GenerationConfig(max_new_tokens=1, max_denoising_steps=2, eos_token_ids=(1, 8))
    result = measure(model, runs=3, seed=1, config=config)
    assert (result["model"], result["device"], result["dtype"], result["runs"]) == (MINI, "cpu", "float32", 3)
    assert (result["parameters"], result["load_seconds"]) == (model.parameter_count, model.load_seconds)
    assert 0 < result["step_ms"]["median"] <= result["step_ms"]["p95"]
    assert 1 <= result["steps_per_canvas"]["median"] <= 2
    assert result["prefill_ms"] > 0
    assert result["tokens_per_second"] >= 0
    assert 50 < result["peak_memory_mb"] < 100_000


def test_each_model_gets_its_own_tasks() -> None:
    boards = prompts(SUDOKU, 3, seed=2)
    assert boards == prompts(SUDOKU, 3, seed=2)
    assert all(30 <= sudoku.givens(sudoku.parse(board)) <= 50 for board in boards)
    tasks = prompts(MINI, 20, seed=2)
    assert all(map(skills.solve, tasks))
    assert len(set(tasks)) > 10
    general = prompts("some-other-model", 7, seed=2)
    assert general[0] == general[5]
    assert len(set(general)) == 5


def test_each_run_reads_all_and_writes_a_token_a_pass(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    real, runs = generation.generate, list[list[Event]]()

    def recorded(*arguments: Any, **named: Any) -> Iterator[Event]:
        runs.append([])
        for event in real(*arguments, **named):
            runs[-1].append(event)
            yield event

    monkeypatch.setattr(generation, "generate", recorded)
    result = measure_writing(model, 20, 6, runs=2)
    assert len(runs) == 3, "one warms up"
    for events, passes in zip(runs, (generation.WARM_UP, 6, 6), strict=True):
        read = [event for event in events if isinstance(event, PrefillFinished)]
        assert [(event.prompt_tokens, event.reused_tokens) for event in read] == [(21, 0)]
        assert sum(isinstance(event, StepFinished) for event in events) == passes
    written = [event.tokens.tolist() for events in runs for event in events if isinstance(event, GenerationFinished)]
    assert [len(tokens) for tokens in written] == [generation.WARM_UP, 6, 6]
    assert written[1] == written[2]
    assert (result["prompt_tokens"], result["new_tokens"], result["runs"]) == (20, 6, 2)
    most = model.config.max_position_embeddings
    with pytest.raises(SafelightError, match=f"do not fit the {most} positions"):
        measure_writing(model, most - 4, 4)


def test_rates_are_tokens_over_seconds(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter((10.0, 12.0, 17.0))  # the start, the prompt is read, all is written

    class Clock:
        @staticmethod
        def perf_counter() -> float:
            return next(ticks)

    monkeypatch.setattr(generation, "time", Clock)
    prompt = model.tokenizer.encode(" ".join(generation.GENERIC))[:21]
    assert timed_run(model, prompt, 5, model.new_cache()) == (20 / 2, 5 / 5)
