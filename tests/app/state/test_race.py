"""Batches of races: prompts that a program can check, and each lane's figures with their intervals."""

from __future__ import annotations

import csv
import io
import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from app.state.intervals import bootstrap
from app.state.race.prompts import MOST_PROMPTS, is_right, own_prompts, sudoku_prompts
from app.state.race.running import LaneRun, agreement
from app.state.race.scores import LaneScore, RaceResult, RaceScores
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


def result(index: int, lane: int, *, exact: bool | None = True, tokens: int = 10, forwards: int = 5) -> RaceResult:
    return RaceResult(index, lane, "add", "p", "t", "eos", exact, tokens, forwards, forwards, 0.5, 1.0)


def step(number: int, argmax: list[int], accepted: NDArray[np.bool_]) -> StepFinished:
    canvas = np.array(argmax, np.int32)
    return StepFinished(0, number, 0.5, canvas, canvas, np.zeros(len(canvas), np.float32), accepted, canvas, 0.1)


def test_answers_are_checked() -> None:
    assert is_right("What is 47 + 5?", " 52\n")
    assert is_right("What is 47 + 5?", "certainly not this") is False
    puzzle = next(iter(sudoku_prompts(1, 7, ("easy",))))
    assert puzzle.is_right(puzzle.text) is False
    assert [one.group for one in itertools.islice(sudoku_prompts(4, 1), 4)] == ["easy", "medium", "hard", "easy"]
    assert is_right("Why is the sky blue?", "Because.") is None


def test_own_prompts_are_lines() -> None:
    assert [one.text for one in own_prompts("What is 1 + 1?\n\n  two  \n")] == ["What is 1 + 1?", "two"]
    with pytest.raises(SafelightError, match="no prompts"):
        own_prompts(" \n")
    with pytest.raises(SafelightError, match="more than a batch takes"):
        own_prompts("x\n" * (MOST_PROMPTS + 1))


def test_a_lanes_figures_are_of_all_its_answers() -> None:
    scores = RaceScores(("one", "two"))
    for index in range(4):
        scores.add([result(index, 0, tokens=8 + index), result(index, 1, exact=index > 0, forwards=20)])
    one, two = scores.rows()
    assert (one.lane, one.count, one.rate) == ("one", 4, 1.0)
    assert one.tokens_per_forward == pytest.approx(38 / 20)
    assert one.tokens_per_second == pytest.approx(38 / 2)
    assert (two.rate, two.exact_interval) == (0.75, pytest.approx((0.3006, 0.9544), abs=1e-3))
    low, high = one.tokens_per_forward_interval
    assert 8 / 5 <= low < one.tokens_per_forward < high <= 11 / 5
    assert LaneScore.from_results("x", [result(0, 0, exact=None)]).rate is None
    assert scores.document()["groups"] == {}
    lines = list(csv.DictReader(io.StringIO(scores.to_csv())))
    assert (len(lines), lines[1]["lane"], lines[1]["exact"]) == (8, "two", "False")


def test_padding_is_no_token_of_a_lane_at_any_frame() -> None:
    ends, text, eight = 1, [7, 8, 9, 1, 0, 0, 0, 0], np.ones(8, dtype=np.bool_)
    run = LaneRun(Lane("a model", "A model", run_id="run"))
    run.take(RunStarted("run", Trace(config=GenerationConfig(eos_token_ids=(ends,)))))
    for event in (
        CanvasStarted(0, np.full(8, 5, np.int32), ~eight),
        step(0, [7, 8, 5, 5, 5, 5, 5, 5], eight),  # no end yet
        step(1, text, eight),
        step(2, text, np.array([True, False] * 4)),
        CanvasCommitted(0, np.array(text, np.int32), 3, 3, "converged"),
        GenerationFinished("eos", np.array(text[:3], np.int32), 1, 3, 0.3),
    ):
        run.take(RunAdvanced("run", event))
    assert [moment.tokens for moment in run.moments] == [0, 3, 3, 2, 3]


def test_a_bootstrap_holds_the_middle_of_what_could_have_been() -> None:
    items = [float(number % 10) for number in range(200)]
    low, high = bootstrap(items, [1.0] * 200)
    assert 3.9 < low < 4.5 < high < 5.1
    assert bootstrap([2.0], [4.0]) == (0.5, 0.5)


def test_agreement_is_the_share_of_characters_in_the_same_order() -> None:
    assert agreement("", "") == agreement("abc", "abc") == 1.0
    assert agreement("abc", "") == 0.0
    assert agreement("abcd", "abXd") == 0.75
