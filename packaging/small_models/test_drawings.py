"""Drawings: drawn answers against the rules that read them, the two splits, and the pixels."""

from __future__ import annotations

import random

import numpy as np
import pytest

from engine.tasks.drawings import COLOURS, SIDE, DrawnShape, Number, Scene, draw
from small_models import drawings
from small_models.drawing_cells import CELL_KINDS, cells
from small_models.drawing_questions import KINDS


def shape(kind: str, colour: str, x: float, y: float) -> DrawnShape:
    return DrawnShape(kind, colour, COLOURS[colour], x, y, 0.12, 0.0)


SCENE = Scene(
    (250, 250, 250),
    (shape("star", "red", 0.5, 0.3), shape("circle", "red", 0.2, 0.35), shape("circle", "blue", 0.8, 0.7)),
)
NUMBER = Scene((250, 250, 250), number=Number("407", "blue", COLOURS["blue"], 0.5, 0.5, 0.4, "Inter-SemiBold"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_rules_read_the_answers_that_were_drawn(kind: str) -> None:
    rng = random.Random(3)
    for split in ("train", "test"):
        for _ in range(60):
            example = drawings.sample(rng, split, 2, kind)
            for question, answer in example.asked:
                solved = drawings.solve(example.scene, question)
                assert solved is not None
                assert (solved.kind, solved.answer) == (kind, answer)
                assert len(question) <= drawings.MAX_QUESTION
                assert drawings.is_held_out(example.scene, question) == (split == "test")


@pytest.mark.parametrize("kind", drawings.DECIDED_KINDS)
def test_a_decision_has_the_option_that_the_rules_read(kind: str) -> None:
    with pytest.raises(ValueError, match="no decision"):
        drawings.as_decision(random.Random(2), NUMBER, "Which number is written?")
    rng, places = random.Random(5), set[int]()
    for split in ("train", "test"):
        for _ in range(60):
            drawn = drawings.sample_decision(rng, split, 2, kind)
            for one in drawn.asked:
                solved = drawings.solve(drawn.scene, one.question.instructions)
                assert solved is not None
                assert one.family == solved.kind == kind
                right = one.question.options[one.answer].name
                assert solved.answer == (str(drawings.COUNTS.index(right)) if "count" in kind else right)
                assert drawings.is_held_out(drawn.scene, one.question.instructions) == (split == "test")
                places.add(one.answer)
    assert len(places) == {"presence": 2, "colour": 6, "shape": 4, "side": 4}.get(kind, 6)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How many circles are there?", "2"),
        ("count the shapes", "3"),
        ("How many shapes are green?", "0"),
        ("What color is the star?", "red"),
        ("What colour is the circle?", None),  # there are two
        ("What shape is blue?", "circle"),
        ("What is left of the star?", "circle"),
        ("What is below the star?", None),  # one is hardly lower
        ("Is there a blue star?", "no"),
        ("Which number is written?", None),
        ("Is it nice?", None),
    ],
)
def test_a_question_has_the_answer_that_the_drawing_decides(question: str, answer: str | None) -> None:
    solved = drawings.solve(SCENE, question)
    assert (solved and solved.answer) == answer
    assert drawings.check(SCENE, question, f" {answer} ") == (answer is not None)


def test_a_scene_is_drawn_where_and_as_it_says() -> None:
    pixels = draw(SCENE)
    assert (pixels.shape, pixels.dtype) == ((SIDE, SIDE, 3), np.uint8)
    assert tuple(pixels[0, 0]) == SCENE.ground
    for one in SCENE.shapes:
        place = int(one.y * SIDE), int(one.x * SIDE)
        assert tuple(pixels[place]) == one.paint
    assert np.array_equal(pixels, draw(SCENE))
    written = np.argwhere((draw(NUMBER) != 250).any(axis=-1)) / SIDE
    assert 0.1 < written[:, 1].min() < 0.17
    assert 0.83 < written[:, 1].max() < 0.9  # three digits, in the middle


def test_cells_say_what_they_hold() -> None:
    held = cells(SCENE, 8, 8).reshape(8, 8, 3)
    assert held[..., 2].sum() == len(SCENE.shapes)
    assert list(held[2, 4]) == [1 + CELL_KINDS.index("star"), 1 + list(COLOURS).index("red"), 1]
    assert not held[7, 0].any()
    digits = cells(NUMBER, 8, 8).reshape(8, 8, 3)
    found = [CELL_KINDS[kind - 1] for kind, _, middle in digits[4] if middle]
    assert found == ["4", "0", "7"]
