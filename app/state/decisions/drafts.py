"""A question while it is being written, and its first problem. Knows neither Qt nor a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeGuard, get_args

from app.system.i18n import tr
from engine import SafelightError
from engine.tasks.decisions.questions import (
    MOST_LEVELS,
    MOST_OPTIONS,
    MOST_TEXT,
    OneOf,
    Option,
    Question,
    Score,
    YesNo,
)

Kind = Literal["yes-no", "choice", "score"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FEWEST = 2  # options


@dataclass(frozen=True)
class DraftProblem:
    """A problem that prevents asking a question: its field and a sentence.

    ``field`` is "name", "instructions" or "options"; ``place`` is the index of an option, or -1.
    """

    field: str
    text: str
    place: int = -1


@dataclass(frozen=True)
class QuestionDraft:
    """A question that may be incomplete. For yes or no, ``options`` are both sides with fixed names."""

    kind: Kind
    name: str = ""
    instructions: str = ""
    options: tuple[Option, ...] = (Option(""), Option(""))

    @staticmethod
    def blank(kind: Kind, name: str = "") -> QuestionDraft:
        """Returns an empty draft."""
        return QuestionDraft("choice", name).as_kind(kind)

    @staticmethod
    def from_question(question: Question) -> QuestionDraft:
        """Returns a draft to edit a complete question."""
        kind: Kind = "yes-no" if isinstance(question, YesNo) else "choice" if isinstance(question, OneOf) else "score"
        return QuestionDraft(kind, question.name, question.instructions, question.options)

    def question(self) -> Question:
        """Returns the complete question.

        Raises:
            SafelightError: the draft is not complete.
        """
        match self.kind:
            case "yes-no":
                yes, no = (option.description for option in self.options)
                return YesNo(self.instructions, yes, no, self.name)
            case "choice":
                return OneOf(self.instructions, self.options, self.name)
            case "score":
                return Score(self.instructions, self.options, self.name)

    def as_kind(self, kind: Kind) -> QuestionDraft:
        """Returns the draft as another kind of question. A choice and a score share options, as far as they fit."""
        if kind == self.kind:
            return self
        if kind == "yes-no":
            options: tuple[Option, ...] = (Option("yes"), Option("no"))
        elif self.kind == "yes-no":
            options = (Option(""), Option(""))
        else:
            options = self.options[: most_options(kind)]
        return replace(self, kind=kind, options=options)

    def plus_option(self) -> QuestionDraft:
        """Returns the draft with an empty option at the end; unchanged if there is no room."""
        return replace(self, options=(*self.options, Option(""))) if self.has_room else self

    def minus_option(self, place: int) -> QuestionDraft:
        """Returns the draft without an option; unchanged if it has only the least number of options."""
        if not self.has_spare:
            return self
        return replace(self, options=(*self.options[:place], *self.options[place + 1 :]))

    @property
    def has_room(self) -> bool:
        """True if another option can be added."""
        return self.kind != "yes-no" and len(self.options) < most_options(self.kind)

    @property
    def has_spare(self) -> bool:
        """True if an option can be removed."""
        return self.kind != "yes-no" and len(self.options) > FEWEST

    @property
    def problem(self) -> DraftProblem | None:
        """The first problem that prevents asking the question; None if it is complete."""
        if not self.instructions.strip():
            return DraftProblem("instructions", tr("Write a question."))
        names = [option.name.strip() for option in self.options]
        for place, name in enumerate(names):
            if not name:
                return DraftProblem("options", tr("Name this option, or remove it."), place)
            if name in names[:place]:
                return DraftProblem("options", tr("This option is there twice. Give it another name."), place)
        try:
            self.question()
        except SafelightError as error:  # possible in a draft from a file, not in the editor's fields
            return DraftProblem("instructions", str(error))
        return None

    def to_json(self) -> dict[str, Any]:
        options = [[option.name, option.description] for option in self.options]
        return {"kind": self.kind, "name": self.name, "instructions": self.instructions, "options": options}

    @staticmethod
    def from_json(raw: Any) -> QuestionDraft | None:
        """Reads the output of ``to_json``; None for anything else."""
        if not isinstance(raw, Mapping):
            return None
        kind = next((kind for kind in KINDS if kind == raw.get("kind")), None)
        name, instructions, pairs = (raw.get(key) for key in ("name", "instructions", "options"))
        if kind is None or not _is_text(name) or not _is_text(instructions) or not isinstance(pairs, list):
            return None
        if not all(isinstance(pair, list) and len(pair) == 2 and all(map(_is_text, pair)) for pair in pairs):
            return None
        options = tuple(Option(*pair) for pair in pairs)
        if not FEWEST <= len(options) <= most_options(kind):
            return None
        if kind == "yes-no":
            options = (Option("yes", options[0].description), Option("no", options[1].description))
        return QuestionDraft(kind, name, instructions, options)


def most_options(kind: Kind) -> int:
    """Returns the largest number of options of a kind of question."""
    return {"yes-no": FEWEST, "choice": MOST_OPTIONS, "score": MOST_LEVELS}[kind]


def _is_text(raw: Any) -> TypeGuard[str]:
    return isinstance(raw, str) and len(raw) <= MOST_TEXT
