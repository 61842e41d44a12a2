"""The wording of questions about a state, and the labels that the model answers with.

The wording is that of vLLM's decisions (vllm/entrypoints/openai/decisions, 0.33), so that answers can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.errors import SafelightError
from engine.tasks.decisions.questions import LETTERS, Decision, OneOf, Option, Question, YesNo

YES_NO = (("yes", "no"), ("y", "n"))
"""Labels of a yes-or-no question; a model uses the first pair whose labels are one token each."""

DIGITS = "0123456789"
CLOSING = 'Reply with one line per question, in order, formatted as "number: answer".'

Encode = Callable[[str], Sequence[int]]
"""Encodes text to token ids, without special tokens."""


@dataclass(frozen=True)
class Labels:
    """The labels that a model answers with."""

    yes_no: tuple[str, str] = YES_NO[0]

    @staticmethod
    def from_tokenizer(encode: Encode) -> Labels:
        """Returns the labels for a model's tokenizer.

        Raises:
            SafelightError: it splits every pair for yes and no.
        """
        for pair in YES_NO:
            ids = [encode(label) for label in pair]
            if all(len(tokens) == 1 for tokens in ids) and ids[0] != ids[1]:
                return Labels(pair)
        raise SafelightError("this model's tokenizer splits yes and no; it cannot decide")

    def of_question(self, question: Question) -> tuple[str, ...]:
        """Returns a question's labels, one per option."""
        if isinstance(question, YesNo):
            return self.yes_no
        return tuple((LETTERS if isinstance(question, OneOf) else DIGITS)[: len(question.options)])


def user_text(decision: Decision, labels: Labels) -> str:
    """Returns the user's message: the state and the questions about it."""
    if not decision.is_joint:
        return f"{decision.state}\n\nQuestion: {asked(decision.questions[0], labels)}"
    numbered = (
        f"Question {number}: {asked(question, labels)}"
        for number, question in enumerate(decision.questions, start=decision.first)
    )
    return "\n\n".join([decision.state, *numbered, CLOSING])


def asked(question: Question, labels: Labels) -> str:
    """Returns the text of one question: the question, a line for each option, and the form of the reply."""
    names = labels.of_question(question)
    if isinstance(question, YesNo):
        described = [_line(label, side.description) for label, side in zip(names, question.options, strict=True)]
        lines = described if question.yes or question.no else []
        reply = f"Answer with {names[0]} or {names[1]} only."
    else:
        lines = [_line(label, _described(option)) for label, option in zip(names, question.options, strict=True)]
        thing = "letter of one option" if isinstance(question, OneOf) else "number of one level"
        reply = f"Answer with the {thing} only."
    return "\n".join([question.instructions, *lines, reply])


def _line(label: str, text: str) -> str:
    return f"{label}: {text}" if text else label


def _described(option: Option) -> str:
    return f"{option.name} - {option.description}" if option.description else option.name
