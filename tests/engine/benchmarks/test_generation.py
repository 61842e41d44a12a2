"""What a benchmark measures and says; not how fast anything is."""

from __future__ import annotations

import sys

import pytest
import torch

from engine import SKILLS, SUDOKU, GenerationConfig, Model, SafelightError, load_model
from engine.benchmarks.generation import measure, peak_memory_mb, prompts
from engine.tasks import skills, sudoku


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(SKILLS, device="cpu")


def test_a_result_adds_up(model: Model) -> None:
    seen: list[tuple[int, int]] = []
    config = GenerationConfig(max_new_tokens=1, max_denoising_steps=2, eos_token_ids=(1, 8))
    result = measure(model, runs=3, seed=1, config=config, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert (result.model, result.device, result.dtype, result.runs) == (SKILLS, "cpu", "float32", 3)
    assert result.parameters == model.parameter_count
    assert result.threads == torch.get_num_threads()
    assert result.load_seconds == model.load_seconds
    assert 0 < result.step_ms_median <= result.step_ms_p95
    assert 1 <= result.steps_per_canvas_median <= 2
    assert 1 <= result.steps_per_canvas_mean <= 2
    assert result.prefill_ms > 0
    assert result.tokens_per_forward >= 0
    assert result.tokens_per_second >= 0


def test_the_record_has_these_keys(model: Model) -> None:
    config = GenerationConfig(max_new_tokens=1, max_denoising_steps=1)
    record = measure(model, runs=1, config=config).as_dict()
    assert list(record) == [
        *("model", "device", "dtype", "threads", "parameters", "load_seconds", "prefill_ms", "step_ms"),
        *("steps_per_canvas", "tokens_per_forward", "tokens_per_second", "peak_memory_mb", "runs"),
    ]
    assert set(record["step_ms"]) == {"median", "p95"}
    assert set(record["steps_per_canvas"]) == {"mean", "median"}


def test_no_runs_is_an_error(model: Model) -> None:
    with pytest.raises(SafelightError, match="must be 1 or more"):
        measure(model, runs=0)


def test_each_model_gets_its_own_tasks() -> None:
    boards = prompts(SUDOKU, 3, seed=2)
    assert boards == prompts(SUDOKU, 3, seed=2)
    assert all(30 <= sudoku.givens(sudoku.parse(board)) <= 50 for board in boards)
    tasks = prompts(SKILLS, 20, seed=2)
    assert all(skills.is_held_out(task) or skills.solve(task) for task in tasks)
    assert len(set(tasks)) > 10
    general = prompts("some-other-model", 7, seed=2)
    assert general[0] == general[5]
    assert len(set(general)) == 5


def test_peak_memory_has_a_number_or_a_reason() -> None:
    peak, note = peak_memory_mb(torch.device("cpu"))
    assert note
    if sys.platform in ("linux", "darwin"):
        assert peak is not None
        assert 50 < peak < 100_000
