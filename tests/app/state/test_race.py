"""Batches of races: prompts that a program can check, and each lane's figures with their intervals."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from numpy.typing import NDArray

from app.state.race.prompts import is_right, own_prompts, sudoku_prompts
from app.state.race.running import LaneRun, agreement
from app.state.race.scores import RaceResult, as_csv, score_of, scores_of
from app.state.sudoku.placing import puzzle_in
from engine import (
    CanvasCommitted,
    CanvasStarted,
    GenerationConfig,
    GenerationFinished,
    SafelightError,
    StepFinished,
    Trace,
)
from engine.service import Lane, RunAdvanced, RunStarted
from engine.tasks import sudoku
from engine.tasks.sudoku import GivenRange


def result(index: int, lane: str, *, exact: bool | None = True, tokens: int = 10, forwards: int = 5) -> RaceResult:
    return RaceResult(index, lane, "p", "t", "eos", exact, tokens, forwards, forwards, 0.5, 1.0)


def step(number: int, argmax: list[int], accepted: NDArray[np.bool_]) -> StepFinished:
    canvas = np.array(argmax, np.int32)
    return StepFinished(0, number, 0.5, canvas, canvas, np.zeros(len(canvas), np.float32), accepted, canvas, 0.1)


def test_answers_are_checked() -> None:
    assert is_right("What is 47 + 5?", " 52\n")
    assert is_right("What is 47 + 5?", "certainly not this") is False
    span = GivenRange(45, 50)
    first, second = sudoku_prompts(2, 7, span)
    assert first == next(sudoku_prompts(1, 7, span)) != second
    board = puzzle_in(first.text)
    assert 45 <= sudoku.givens(board) <= 50
    [solution] = sudoku.solutions(board)
    assert sudoku.is_held_out(solution)
    assert first.is_right(sudoku.rows(solution))
    assert first.is_right(first.text) is False
    assert is_right("Why is the sky blue?", "Because.") is None


def test_own_prompts_are_lines() -> None:
    assert [one.text for one in own_prompts("What is 1 + 1?\n\n  two  \n")] == ["What is 1 + 1?", "two"]
    with pytest.raises(SafelightError, match="no prompts"):
        own_prompts(" \n")


def test_a_lanes_figures_are_of_all_its_answers() -> None:
    results: list[RaceResult] = []
    for index in range(4):
        results += [result(index, "one", tokens=8 + index), result(index, "two", exact=index > 0, forwards=20)]
    one, two = scores_of(results)
    assert (one.lane, one.count, one.rate) == ("one", 4, 1.0)
    assert one.tokens_per_forward == pytest.approx(38 / 20)
    assert one.tokens_per_second == pytest.approx(38 / 2)
    assert (two.rate, two.exact_interval) == (0.75, pytest.approx((0.3006, 0.9544), abs=1e-3))
    low, high = one.tokens_per_forward_interval
    assert 8 / 5 <= low < one.tokens_per_forward < high <= 11 / 5
    assert score_of("x", [result(0, "x", exact=None)]).rate is None
    lines = list(csv.DictReader(io.StringIO(as_csv(results))))
    assert (len(lines), lines[1]["lane"], lines[1]["exact"]) == (8, "two", "False")


def test_padding_is_no_token_of_a_lane_at_any_frame() -> None:
    ends, text, eight = 1, [7, 8, 9, 1, 0, 0, 0, 0], np.ones(8, dtype=np.bool_)
    run = LaneRun(Lane("a model", "A model", run_id="run"))
    run.apply(RunStarted("run", Trace(config=GenerationConfig(eos_token_ids=(ends,)))))
    for event in (
        CanvasStarted(0, np.full(8, 5, np.int32), ~eight),
        step(0, [7, 8, 5, 5, 5, 5, 5, 5], eight),  # no end yet
        step(1, text, eight),
        step(2, text, np.array([True, False] * 4)),
        CanvasCommitted(0, np.array(text, np.int32), 3, 3, "converged"),
        GenerationFinished("eos", np.array(text[:3], np.int32), 1, 3, 0.3),
    ):
        run.apply(RunAdvanced("run", event))
    assert [moment.tokens for moment in run.moments] == [0, 3, 3, 2, 3]


def test_agreement_is_the_share_of_characters_in_the_same_order() -> None:
    assert agreement("", "") == agreement("abc", "abc") == 1.0
    assert agreement("abc", "") == 0.0
    assert agreement("abcd", "abXd") == 0.75
