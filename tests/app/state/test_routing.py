"""Which of the installed models a prompt is for."""

from __future__ import annotations

import pytest

from app.state.chat.routing import better_model, is_about_drawing, model_for, others_for
from engine import BASE, DECIDER, SIGHT, SKILLS, SUDOKU, TOOLS
from engine.catalog import TALK, PackagedModel, Traits, traits
from engine.tasks import skills

PUZZLE = "003100064080000302000500087070005000000009400805000000004000030050007000700801096"
OWN_WORDS = ("hi there", "What is the capital of France?", "def fib(n):", "Reverse the words canvas and robot, please!")


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PackagedModel, "is_here", True)


@pytest.mark.usefixtures("talk")
@pytest.mark.parametrize("model", [SKILLS, BASE, SUDOKU, DECIDER])
def test_own_words_are_for_talk(model: str) -> None:
    assert [better_model(traits(model), text) for text in OWN_WORDS] == [TALK] * len(OWN_WORDS)


@pytest.mark.usefixtures("talk")
def test_tasks_that_were_learned_stay() -> None:
    assert [better_model(traits(SKILLS), text) for text in (*skills.suggestions(), " ", "")] == [None] * (
        len(skills.suggestions()) + 2
    )


@pytest.mark.usefixtures("talk")
def test_puzzles_are_for_the_sudoku_model() -> None:
    by_rows = "\n".join(PUZZLE[row : row + 9].replace("0", ".") for row in range(0, 81, 9))
    for text in (PUZZLE, by_rows):
        found = better_model(traits(SKILLS), text)
        assert found is not None
        assert found.id == SUDOKU
        assert better_model(traits(SUDOKU), text) is None
        assert better_model(traits(BASE, "sudoku-lora"), text) is None


@pytest.mark.usefixtures("talk")
def test_models_that_are_not_ours_and_those_that_see_get_what_they_are_asked() -> None:
    for text in (*OWN_WORDS, PUZZLE):
        assert better_model(Traits(), text) is None
        assert better_model(traits(TALK.id), text) is None
        assert better_model(traits(SIGHT), text) is None


@pytest.mark.parametrize(
    ("text", "files", "pictures", "wanted"),
    [
        ("Write a short poem about the sea.", (), False, TALK.id),
        ("", (), False, TALK.id),
        ("hi", (), False, SKILLS),
        ("  count from 3  to 9", (), False, SKILLS),
        ("count from 3 to 9", ("a file",), False, TALK.id),
        (PUZZLE, (), False, SUDOKU),
        ("", (PUZZLE,), False, SUDOKU),
        (PUZZLE, (PUZZLE,), False, TALK.id),
        ("How many circles are there?", (), True, SIGHT),
    ],
)
@pytest.mark.usefixtures("talk")
def test_the_choice_among_the_small_models(text: str, files: tuple[str, ...], pictures: bool, wanted: str) -> None:
    assert model_for(text, files, has_pictures=pictures).id == wanted


def test_a_question_about_the_drawing_before_it() -> None:
    assert is_about_drawing("what colour is  the circle")
    assert not is_about_drawing("What is the capital of France?")


def test_without_talk_the_choice_falls_on_skills() -> None:
    assert [model_for(text).id for text in OWN_WORDS] == [SKILLS] * len(OWN_WORDS)
    assert model_for(PUZZLE).id == SUDOKU
    assert better_model(traits(SUDOKU), "Spell banana.") is not None
    assert better_model(traits(SUDOKU), "own words") is None


@pytest.mark.parametrize(
    ("wrote", "text", "others"),
    [
        (SKILLS, "spell banana", [TALK.id]),
        (TALK.id, "spell banana", [SKILLS]),
        (TALK.id, "What is the capital of France?", []),
        ("/models/mine", PUZZLE, [SUDOKU, TALK.id]),
        (SUDOKU, PUZZLE, [TALK.id]),
    ],
)
@pytest.mark.usefixtures("talk")
def test_others_that_could_answer(wrote: str, text: str, others: list[str]) -> None:
    assert [model.id for model in others_for(wrote, text)] == others
    assert [model.id for model in others_for(wrote, text, has_pictures=True)] == [SIGHT]


@pytest.mark.usefixtures("talk")
def test_a_question_for_a_tool_goes_to_the_model_that_calls_it_if_it_is_offered() -> None:
    asked, known = "what time is it in Rome", ("clock", "calculate")
    assert model_for(asked).id == TALK.id
    assert model_for(asked, tools=known).id == TOOLS
    assert model_for(asked, ["a file"], tools=known).id == TALK.id
    assert model_for("What is 47 + 5?", tools=["clock"]).id == SKILLS
    assert model_for("What is 47 + 5?", tools=known).id == TOOLS
    assert [better_model(traits(TOOLS), text) for text in (asked, "Spell fig.")] == [None, None]
    assert better_model(traits(TOOLS), "Write a poem.") == TALK
