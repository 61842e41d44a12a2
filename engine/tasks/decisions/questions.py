"""Questions with typed answers: yes or no, one of several options, a level on a scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from engine.errors import SafelightError, quoted

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MAX_OPTIONS = len(LETTERS)
MAX_LEVELS = 10  # as many as there are digits
MAX_QUESTIONS = 64
MAX_REPEATS = 64
MAX_QUESTION_CHARACTERS = 10_000  # characters of a question, a name or a description


@dataclass(frozen=True)
class Option:
    """An option of a choice, or a level of a score."""

    name: str
    description: str = ""


@dataclass(frozen=True)
class YesNo:
    """A question whose answer is the probability of yes; ``yes`` and ``no`` may describe each side."""

    instructions: str
    yes: str = ""
    no: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        _check_texts(self.name, self.instructions, (Option("yes", self.yes), Option("no", self.no)))

    @property
    def options(self) -> tuple[Option, ...]:
        """Returns both sides, yes first."""
        return Option("yes", self.yes), Option("no", self.no)


@dataclass(frozen=True)
class OneOf:
    """A question whose answer is one of 2 to 26 options with unique names."""

    instructions: str
    options: tuple[Option, ...]
    name: str = ""

    def __post_init__(self) -> None:
        _check_count(self.name, "options", len(self.options), MAX_OPTIONS)
        _check_texts(self.name, self.instructions, self.options)


@dataclass(frozen=True)
class Score:
    """A question whose answer is a level, worth 0 upward: 2 to 10 levels, the lowest first."""

    instructions: str
    levels: tuple[Option, ...]
    name: str = ""

    def __post_init__(self) -> None:
        _check_count(self.name, "levels", len(self.levels), MAX_LEVELS)
        _check_texts(self.name, self.instructions, self.levels)

    @property
    def options(self) -> tuple[Option, ...]:
        return self.levels


Question: TypeAlias = YesNo | OneOf | Score


@dataclass(frozen=True)
class Decision:
    """A decision by one run: a question about a state, or several that are read from one canvas.

    Several questions that are not asked jointly are only possible for a remote model, whose server splits them.

    Args:
        state: the text that the questions are about; it may be empty if they are about pictures.
        instructions: a system message before the state.
        is_joint: the questions are asked together, numbered from ``first``; otherwise each separately.
        repeats: further reads with fresh noise if an answer is in doubt.
    """

    state: str
    questions: tuple[Question, ...]
    instructions: str = ""
    is_joint: bool = False
    first: int = 1
    repeats: int = 0

    def __post_init__(self) -> None:
        if not self.questions:
            raise SafelightError("there is no question; ask at least one")


def _check_count(name: str, what: str, count: int, most: int) -> None:
    if not 2 <= count <= most:
        raise SafelightError(f"{_said(name)} has {count} {what}; give 2 to {most}")


def _check_texts(name: str, instructions: str, options: tuple[Option, ...]) -> None:
    if not instructions.strip():
        raise SafelightError(f"{_said(name)} asks nothing; write its instructions")
    names = [option.name for option in options]
    for text in (name, instructions, *names, *(option.description for option in options)):
        if len(text) > MAX_QUESTION_CHARACTERS:
            raise SafelightError(
                f"{_said(name)} has a text of {len(text)} characters; at most {MAX_QUESTION_CHARACTERS} are taken"
            )
    for one in names:
        if not one.strip():
            raise SafelightError(f"{_said(name)} has an option without a name; give it one")
        if names.count(one) > 1:
            raise SafelightError(f"{_said(name)} has the option {quoted(one)} twice; give each another name")


def _said(name: str) -> str:
    return f"the question {quoted(name)}" if name else "the question"
