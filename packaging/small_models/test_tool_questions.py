"""Questions for tools: each is answered by the call that it comes with, and one in sixteen is held out."""

from __future__ import annotations

import datetime
import random

import jsonschema
import pytest

from engine.errors import SafelightError
from engine.tasks import skills
from engine.tasks.tool_questions import NO_TOOL, normal, tool_for
from engine.tools.example_tools import COLUMNS, ERROR, TABLE, TOOLS, ZONES, calculate, clock, count_words
from engine.tools.tool import REFUSED
from small_models.tool_questions import NOT_ALLOWED, ToolQuestion, result_of, sample

NOW = datetime.datetime(2026, 3, 4, 14, 5, tzinfo=datetime.UTC)


def drawn(split: str, count: int = 3_000) -> list[ToolQuestion]:
    rng = random.Random(5)
    return [sample(rng, "train" if split == "train" else "test", NOW) for _ in range(count)]


CALCULATED = {"12*(3+4)": "84", "7/2": "3.5", "-3--4": "1", "1/3": "0.333333", "0.1+0.2": "0.3", "10/5": "2"}
REFUSED_SUMS = ("", "1+", "a", "2**9", "1/0", "9" * 16, "1e400", "'a'*9", "True+1", "f(1)", "(" * 79, "1" * 81)


def test_the_calculator_is_exact_and_takes_nothing_else() -> None:
    assert {expression: calculate(expression) for expression in CALCULATED} == CALCULATED
    for expression in (*REFUSED_SUMS, "__import__"):
        with pytest.raises(SafelightError):
            calculate(expression)


def test_the_clock_and_the_table_are_whole() -> None:
    assert all(set(row) == set(COLUMNS) and all(row.values()) for row in TABLE.values())
    assert count_words(" a  b\nc ") == "3"
    assert clock("tokyo", NOW) == "Wednesday 23:05"
    assert {len(clock(place, NOW).split()) for place in ZONES} == {2}
    with pytest.raises(SafelightError, match="no place called Atlantis"):
        clock("Atlantis")
    assert len(clock().split()) == 2


def test_calls_fit_the_schemas_and_answers_hold_the_results() -> None:
    for asked in drawn("test"):
        if not asked.tool:
            right = skills.solve(asked.question) or NO_TOOL
            assert asked.answer in (right, right[: skills.MAX_ANSWER])
            continue
        assert asked.tool in asked.offered
        jsonschema.validate(asked.arguments, TOOLS[asked.tool].parameters)
        if asked.result == REFUSED:
            assert asked.answer == NOT_ALLOWED
            continue
        assert asked.result == result_of(asked.tool, asked.arguments, NOW)
        assert not asked.result.startswith(ERROR)
        assert asked.result in asked.answer or asked.tool == "clock"
        assert all(value in asked.question for name, value in asked.arguments.items() if name != "expression")


def test_no_question_is_in_both_splits() -> None:
    def asked(split: str) -> set[tuple[str, ...]]:
        return {(one.kind, *map(str, one.arguments.values())) for one in drawn(split) if one.tool and one.arguments}

    train, test = asked("train"), asked("test")
    assert len(test) > 300
    assert not {one for one in train & test if one[0] != "clock"}  # a place may be asked for its day and for its time


def test_the_tool_of_a_question_is_known_by_its_wording() -> None:
    for one in drawn("train"):
        found = tool_for(one.question)
        assert found == one.kind or (one.kind == "skill" and found in ("", "calculate")), one.question
    asked = (
        "What time is it in Tokyo?",
        "What is 37 * (46 + 2)?",
        "What is the capital of Peru?",
        "How many words: the owl",
    )
    assert [tool_for(text) for text in asked] == ["clock", "calculate", "look_up", "count_words"]
    assert [tool_for(text) for text in ("", "What is the sea?", "What is 2026?", "Hello", "5-6 = " * 40)] == [""] * 5


def test_questions_are_brought_to_the_wording_of_the_training_texts() -> None:
    for asked in drawn("train"):
        if asked.kind in TOOLS:
            assert normal(asked.question) == asked.question
    assert normal("  what time is it in new york ") == "What time is it in New York?"
    assert normal("12*(3+4)=?") == "12 * (3 + 4) = ?"
    assert normal("calculate 7-2") == "Calculate 7 - 2."
    assert normal("peru: which capital?") == "Peru: which capital?"
    assert normal("count the words: a b") == "Count the words: a b"
    assert normal("Hello there") == "Hello there"
