"""What the benchmark of several runs at once measures and says; not how fast anything is."""

from __future__ import annotations

import pytest

from engine import SKILLS, GenerationConfig, SafelightError, load_model
from engine.benchmarks.parallel import AtOnce, measure_parallel, numbers

CONFIG = GenerationConfig(max_new_tokens=1, max_denoising_steps=2, confidence_threshold=0.0, eos_token_ids=(1, 8))


def test_each_number_of_runs_answers_the_same_prompts() -> None:
    model = load_model(SKILLS, device="cpu")
    result = measure_parallel(model, 3, runs=3, config=CONFIG, rounds=1)
    assert (result.model, result.prompts, result.rounds, result.threads) == (SKILLS, 3, 1, 1)
    assert [row.runs for row in result.rows] == [1, 2, 3]
    assert result.rows[0].ratio == 1.0
    for row in result.rows:
        assert row.steps_per_second > 0
        assert row.tokens_per_second >= 0
        assert row.run_seconds > 0
    record = result.as_dict()
    assert list(record) == ["model", "device", "threads", "prompts", "rounds", "parallel"]
    assert record["parallel"] == [vars(row) for row in result.rows]
    assert set(record["parallel"][0]) == set(AtOnce.__dataclass_fields__)


def test_the_numbers_of_runs_at_once() -> None:
    assert [numbers(most) for most in (1, 2, 3, 4, 6)] == [[1], [1, 2], [1, 2, 3], [1, 2, 4], [1, 2, 4, 6]]


@pytest.mark.parametrize(("most", "runs"), [(0, 4), (65, 65), (2, 0)])
def test_numbers_out_of_range(most: int, runs: int) -> None:
    with pytest.raises(SafelightError, match="must be"):
        measure_parallel(None, most, runs)  # type: ignore[arg-type]
