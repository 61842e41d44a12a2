"""Checks an answer of a small model against the tasks that it was trained on. Knows no Qt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.state.chat.conversation import Answer
from app.state.chat.prompts import Suggestion
from app.system.i18n import tr, trn
from engine import catalog
from engine.tasks import skills, wording

MOST_WORDS = 4  # unknown words that are named
LONGEST_RIGHT = 60  # characters; a longer right answer is not shown


@dataclass(frozen=True)
class Caveat:
    """A warning about an answer in a sentence or two, and similar prompts that the model was trained on."""

    text: str
    nearest: tuple[Suggestion, ...]


def doubt(prompt: str, answer: Answer) -> Caveat | None:
    """Returns a warning about an answer that ended by itself; None if there is no reason to doubt it.

    A model trained on skills is checked: the prompt must be one of its tasks, in its wording, and the answer right.
    Answers of other models cannot be checked; ``Answer.notices`` reports blocks that did not converge.
    """
    traits = catalog.traits(Path(answer.model).name, answer.adapter)
    if traits.taught != "skills" or answer.status != "done":
        return None
    text = _wrong(prompt, answer) if wording.is_taught(prompt) else _untaught(prompt)
    return Caveat(text, tuple(Suggestion(near, near) for near in wording.nearest(prompt))) if text else None


def _wrong(prompt: str, answer: Answer) -> str:
    right = skills.solve(prompt)
    if right is None or skills.check(prompt, answer.text):
        return ""
    if "\n" in right or len(right) > LONGEST_RIGHT:
        return tr(
            "Checked by a program: this is wrong. Its wording may be new to the model. Nearest to what it learned:"
        )
    return tr(
        "Checked by a program: this is wrong, it should be “{right}”. Its wording may be new to the model. "
        "Nearest to what it learned:",
        right=right,
    )


def _untaught(prompt: str) -> str:
    unknown = wording.unknown_words(prompt)
    if not unknown:
        return tr(
            "This small model does a few kinds of tasks, each in its own wording, and this is none of them: "
            "what it wrote is a guess. Nearest to what it learned:"
        )
    named = ", ".join(f"“{word}”" for word in unknown[:MOST_WORDS])
    return trn(
        "This small model never learned the word {words}: what it wrote is a guess. Nearest to what it learned:",
        "This small model never learned the words {words}: what it wrote is a guess. Nearest to what it learned:",
        len(unknown),
        words=named if len(unknown) <= MOST_WORDS else tr("{words} and more", words=named),
    )
