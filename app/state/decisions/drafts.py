"""A question while it is being written, its first problem, and texts about it and its answer. Knows no Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from app.state.run.answers import share_words
from app.system.i18n import tr
from engine.catalog import EMBEDDED
from engine.service import LoadedModel
from engine.tasks.decisions.answers import TypedAnswer
from engine.tasks.decisions.questions import MAX_LEVELS, MAX_OPTIONS, OneOf, Option, Question, Score, YesNo

LONGEST_TITLE = 48  # characters


Kind = Literal["yes-no", "choice", "score"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FEWEST = 2  # options


@dataclass(frozen=True)
class Sample:
    """A state and questions about it."""

    state: str
    questions: tuple[Question, ...]

    @property
    def title(self) -> str:
        """The beginning of the state."""
        return self.state if len(self.state) <= LONGEST_TITLE else f"{self.state[: LONGEST_TITLE - 1].rstrip()}…"

    @property
    def drafts(self) -> tuple[QuestionDraft, ...]:
        """The questions as drafts."""
        return tuple(map(QuestionDraft.from_question, self.questions))


def samples() -> tuple[Sample, ...]:
    """Returns all samples, the default first. None was in the training data of the small decider."""
    return (
        Sample(
            "The number is 58. Zoe comes on Saturday.",
            (
                OneOf("When does Zoe come?", _options("workday", "weekend")),
                YesNo("Is the number smaller than 77?"),
                Score("How large is the number?", _options("0 to 24", "25 to 49", "50 to 74", "75 to 99")),
            ),
        ),
        Sample(
            "The number is 39. The list is m, p, k.",
            (
                YesNo("Is the number even?"),
                YesNo("Is e in the list?"),
                Score("How many letters are in the list?", _options("one", "two", "three", "four")),
            ),
        ),
    )


def _options(*names: str) -> tuple[Option, ...]:
    return tuple(map(Option, names))


@dataclass(frozen=True)
class DraftProblem:
    """A problem that prevents asking a question, and the index of the option that has it; -1 for the question."""

    text: str
    place: int = -1


@dataclass(frozen=True)
class QuestionDraft:
    """A question that may be incomplete. For yes or no, ``options`` are both sides with fixed names."""

    kind: Kind
    instructions: str = ""
    options: tuple[Option, ...] = (Option(""), Option(""))

    @staticmethod
    def from_question(question: Question) -> QuestionDraft:
        """Returns a draft to edit a complete question."""
        kind: Kind = "yes-no" if isinstance(question, YesNo) else "choice" if isinstance(question, OneOf) else "score"
        return QuestionDraft(kind, question.instructions, question.options)

    def question(self, name: str) -> Question:
        """Returns the complete question.

        Raises:
            SafelightError: the draft is not complete; see ``problem``.
        """
        match self.kind:
            case "yes-no":
                yes, no = (option.description for option in self.options)
                return YesNo(self.instructions, yes, no, name)
            case "choice":
                return OneOf(self.instructions, self.options, name)
            case "score":
                return Score(self.instructions, self.options, name)

    def as_kind(self, kind: Kind) -> QuestionDraft:
        """Returns the draft as another kind of question. A choice and a score share options, as far as they fit."""
        if kind == self.kind:
            return self
        if kind == "yes-no":
            options: tuple[Option, ...] = (Option("yes"), Option("no"))
        elif self.kind == "yes-no":
            options = (Option(""), Option(""))
        else:
            options = self.options[: MAX_LEVELS if kind == "score" else MAX_OPTIONS]
        return replace(self, kind=kind, options=options)

    @property
    def has_room(self) -> bool:
        """True if another option can be added."""
        return self.kind != "yes-no" and len(self.options) < (MAX_LEVELS if self.kind == "score" else MAX_OPTIONS)

    @property
    def problem(self) -> DraftProblem | None:
        """The first problem that prevents asking the question; None if it is complete."""
        if not self.instructions.strip():
            return DraftProblem(tr("Write a question."))
        names = [option.name.strip() for option in self.options]
        for place, name in enumerate(names):
            if not name:
                return DraftProblem(tr("Name this option, or remove it."), place)
            if name in names[:place]:
                return DraftProblem(tr("This option is there twice. Give it another name."), place)
        return None

    def to_json(self) -> dict[str, Any]:
        options = [[option.name, option.description] for option in self.options]
        return {"kind": self.kind, "instructions": self.instructions, "options": options}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> QuestionDraft:
        """Reads the output of ``to_json``; raises KeyError, TypeError or ValueError for anything else."""
        options = tuple(Option(str(name), str(description)) for name, description in raw["options"])
        draft = QuestionDraft(KINDS[KINDS.index(raw["kind"])], str(raw["instructions"]), options)
        if len(options) < FEWEST:
            raise ValueError("too few options")
        return draft


LITTLE_MASS = 0.5  # with less probability on the options, none of them is the answer

KIND_TITLES: dict[Kind, str] = {"yes-no": "Yes or no", "choice": "Choice", "score": "Score"}  # shown through ``tr``


def option_titles(draft: QuestionDraft) -> tuple[str, ...]:
    """Returns the titles of a question's options; yes and no are translated."""
    names = (option.name for option in draft.options)
    return tuple(tr(name.capitalize()) if draft.kind == "yes-no" else name for name in names)


def warning(answer: TypedAnswer) -> str:
    """Returns a sentence that warns about an unreliable answer; empty if there is no reason to."""
    if answer.label_mass >= LITTLE_MASS:
        return ""
    return tr(
        "No answer. Of all probability, {share} is on the options: the model wanted to say something else.",
        share=share_words(answer.label_mass),
    )


def obstacle(model: LoadedModel) -> str:
    """Returns why a model cannot decide, and what to do; empty if it can."""
    if model.capabilities.decisions:
        return ""
    return tr("{model} cannot decide: it gives no probabilities. Load another model.", model=model.title)


def advice(model: LoadedModel) -> str:
    """Returns a caution if an embedded model was not trained to decide about texts; empty for all other models."""
    known = next((one for one in EMBEDDED if one.id == model.path_or_id), None)
    if known is None or known.decides_about == "texts":
        return ""
    return tr("{model} was not trained to decide.", model=model.title)
