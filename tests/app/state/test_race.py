"""Races: prompts that a program can check, each lane's figures with their intervals, and who won in words."""

from __future__ import annotations

import csv
import io
import random

import numpy as np
import pytest
from numpy.typing import NDArray

from app.state.intervals import NORMAL_95, bootstrap, paired_difference, wilson
from app.state.race.prompts import is_right, own_prompts, sudoku_prompts
from app.state.race.running import LaneFigures, LaneRun, agreement
from app.state.race.scores import LaneEnd, RaceResult, as_csv, headline, score_of, scores_of, short_names
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


def lane(name: str, seconds: float, forwards: int = 10, *, tokens: int = 20, **more: object) -> LaneEnd:
    return LaneEnd(name, LaneFigures(tokens, forwards, forwards, seconds), **{"text": "abc", **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lanes", "said"),
    [
        (
            [lane("Diffusion", 0.1, 8), lane("Autoregressive", 0.6, 153)],
            "Diffusion: 6.0× faster, same text, 8 passes instead of 153.",
        ),
        ([lane("A", 1.9), lane("B", 0.1)], "B: 19× faster, same text."),
        ([lane("A", 1.0), lane("B", 1.05)], "A tie: A and B are equally fast, same text."),
        (
            [lane("A", 1.0, tokens=100), lane("B", 0.5, tokens=10, text="x")],
            "A: 5.0× as many tokens a second, different texts.",
        ),
        ([lane("A", 0.1, is_right=False, text="x"), lane("B", 0.3, is_right=True)], "B: the only right answer."),
        (
            [lane("A", 0.1, is_right=False, text="x"), lane("B", 0.3, is_right=True), lane("C", 0.6, is_right=True)],
            "B: 2.0× faster, same text.",
        ),
        ([lane("A", 0.1), lane("B", 0.3, problem="It broke.")], "No winner: B failed."),
        ([lane("A", 0.1, text=" "), lane("B", 0.3)], "No winner: A wrote nothing."),
        (
            [lane("A", 0.1), lane("B", 0.3), lane("C", 0.2, text="")],
            "A: 3.0× faster, same text. C wrote nothing.",
        ),
    ],
)
def test_who_won(lanes: list[LaneEnd], said: str) -> None:
    assert headline(lanes) == said


def test_lanes_are_named_by_what_differs() -> None:
    assert short_names(["Skills · Diffusion", "WeDLM · One by one"]) == ["Diffusion", "One by one"]
    assert short_names(["Base · Diffusion", "Sudoku · Diffusion"]) == ["Base", "Sudoku"]
    assert short_names(["A · X", "A · Y", "B · X"]) == ["A · X", "A · Y", "B · X"]


@pytest.mark.parametrize(
    ("solved", "count", "low", "high"),
    [  # as published for these counts, to four places
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_intervals(solved: int, count: int, low: float, high: float) -> None:
    assert wilson(solved, count) == (pytest.approx(low, abs=6e-5), pytest.approx(high, abs=6e-5))


def test_a_bootstrap_holds_the_middle_of_what_could_have_been() -> None:
    items = [float(number % 10) for number in range(200)]
    low, high = bootstrap(items, [1.0] * 200)
    assert 3.9 < low < 4.5 < high < 5.1
    assert bootstrap([2.0], [4.0]) == (0.5, 0.5)


def test_the_interval_of_a_paired_difference() -> None:
    """Fagerland, Lydersen and Laake (2014) give −0.517 to −0.026 for 1 and 7 of 21; without any, it is z²/(n + z²)."""
    assert paired_difference(1, 7, 21) == pytest.approx((-0.517, -0.026), abs=5e-4)
    even = NORMAL_95**2 / (200 + NORMAL_95**2)
    assert paired_difference(0, 0, 200) == pytest.approx((-even, even))
    assert paired_difference(0, 0, 0) == (-1.0, 1.0)
    rng = random.Random(5)
    for _ in range(100):
        count = rng.randint(1, 300)
        better = rng.randint(0, count)
        worse = rng.randint(0, count - better)
        low, high = paired_difference(better, worse, count)
        assert -1 <= low <= (better - worse) / count <= high <= 1
        assert paired_difference(worse, better, count) == (-high, -low)
