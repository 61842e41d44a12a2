"""The questions of a decision, with the settings for asking them. Knows neither Qt nor a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from app.state.decisions.drafts import DraftProblem, Kind, QuestionDraft
from app.system.i18n import tr
from engine.tasks.decisions.answers import COLDEST, HOTTEST
from engine.tasks.decisions.question_file import QuestionFile
from engine.tasks.decisions.questions import MOST_QUESTIONS, MOST_TEXT, Question

MOST_READS_AGAIN = 8
USUAL_READS_AGAIN = 3


@dataclass(frozen=True)
class QuestionSheet:
    """Questions with unique names, and the settings for asking them.

    Args:
        instructions: text for the model before the state.
        is_joint: all questions are read from one canvas, as far as they fit.
        repeats: further reads if an answer is in doubt, up to ``MOST_READS_AGAIN``.
        temperature: temperature of the shown probabilities; 1 leaves the model's.
    """

    questions: tuple[QuestionDraft, ...] = ()
    instructions: str = ""
    is_joint: bool = False
    repeats: int = USUAL_READS_AGAIN
    temperature: float = 1.0

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def has_room(self) -> bool:
        """True if another question can be added."""
        return len(self) < MOST_QUESTIONS

    def plus(self, kind: Kind) -> QuestionSheet:
        """Returns the sheet with another question at the end; unchanged if there is no room."""
        return self._with([*self.questions, QuestionDraft.blank(kind, self._free_name())]) if self.has_room else self

    def minus(self, place: int) -> QuestionSheet:
        """Returns the sheet without a question."""
        return self._with([*self.questions[:place], *self.questions[place + 1 :]])

    def doubled(self, place: int) -> QuestionSheet:
        """Returns the sheet with a copy of a question right after it, under another name; unchanged without room."""
        if not self.has_room:
            return self
        again = replace(self.questions[place], name=self._free_name())
        return self._with([*self.questions[: place + 1], again, *self.questions[place + 1 :]])

    def moved(self, place: int, by: int) -> QuestionSheet:
        """Returns the sheet with a question moved down by so many places, or up if ``by`` is negative."""
        target = min(max(place + by, 0), len(self) - 1)
        rest = [*self.questions[:place], *self.questions[place + 1 :]]
        rest.insert(target, self.questions[place])
        return self._with(rest)

    def changed(self, place: int, draft: QuestionDraft) -> QuestionSheet:
        """Returns the sheet with another question at an index."""
        return self._with([*self.questions[:place], draft, *self.questions[place + 1 :]])

    def _with(self, questions: Iterable[QuestionDraft]) -> QuestionSheet:
        return replace(self, questions=tuple(questions))

    def _free_name(self) -> str:
        names = {draft.name for draft in self.questions}
        return next(name for number in range(1, MOST_QUESTIONS + 2) if (name := f"q{number}") not in names)

    @property
    def problems(self) -> dict[int, DraftProblem]:
        """The problem of each question that cannot be asked, by its index."""
        found: dict[int, DraftProblem] = {}
        names = [draft.name.strip() for draft in self.questions]
        for place, draft in enumerate(self.questions):
            problem = draft.problem
            if problem is None and not names[place]:
                problem = DraftProblem("name", tr("Give the question a name, for tables and files."))
            if problem is None and names[place] in names[:place]:
                problem = DraftProblem("name", tr("Another question has this name already."))
            if problem is not None:
                found[place] = problem
        return found

    def asked(self) -> tuple[Question, ...]:
        """Returns the complete questions.

        Raises:
            SafelightError: a question is not complete; see ``problems``.
        """
        return tuple(draft.question() for draft in self.questions)

    def to_json(self) -> dict[str, Any]:
        return {
            "questions": [draft.to_json() for draft in self.questions],
            "instructions": self.instructions,
            "joint": self.is_joint,
            "repeats": self.repeats,
            "temperature": self.temperature,
        }

    @staticmethod
    def from_json(raw: Any) -> QuestionSheet | None:
        """Reads the output of ``to_json``; None for anything else. Values out of bounds become the defaults."""
        if not isinstance(raw, Mapping) or not isinstance(raw.get("questions"), list):
            return None
        drafts = [QuestionDraft.from_json(one) for one in raw["questions"][:MOST_QUESTIONS]]
        said, repeats, temperature = raw.get("instructions"), raw.get("repeats"), raw.get("temperature")
        return QuestionSheet(
            tuple(draft for draft in drafts if draft is not None),
            said if isinstance(said, str) and len(said) <= MOST_TEXT else "",
            raw.get("joint") is True,
            repeats if type(repeats) is int and 0 <= repeats <= MOST_READS_AGAIN else USUAL_READS_AGAIN,
            float(temperature) if _is_temperature(temperature) else 1.0,
        )


def _is_temperature(raw: Any) -> TypeGuard[float]:
    return type(raw) in (int, float) and COLDEST <= raw <= HOTTEST


def sheet_of(file: QuestionFile) -> QuestionSheet:
    """Returns a file's questions and settings as a sheet."""
    drafts = tuple(map(QuestionDraft.from_question, file.questions))
    return QuestionSheet(
        drafts, file.instructions, file.is_joint, min(file.repeats, MOST_READS_AGAIN), file.temperature
    )


def file_of(sheet: QuestionSheet) -> QuestionFile:
    """Returns a sheet as a question file.

    Raises:
        SafelightError: a question is not complete; see ``problems``.
    """
    return QuestionFile(sheet.asked(), sheet.instructions, sheet.is_joint, sheet.repeats, sheet.temperature)
