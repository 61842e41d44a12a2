"""Questions as options of the command line. Knows no model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.cli import options
from engine import SafelightError
from engine.errors import quoted
from engine.tasks.decisions.forms import REPEATS, QuestionFile, read_question_file
from engine.tasks.decisions.questions import MOST_REPEATS, OneOf, Option, Question, Score, YesNo

KINDS = ("--yes-no", "--choice", "--score")
PARTS = {"--option": "--choice", "--level": "--score"}  # the kind of question that each is a part of


class _InOrder(argparse.Action):
    """Records an option with its text in command-line order, since the parts of a question follow it."""

    def __call__(
        self, _parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        namespace.asked = [*(namespace.asked or ()), (option, values)]


def add_questions(parser: argparse.ArgumentParser) -> None:
    """Adds ``--yes-no`` and similar options, ``--questions``, and the settings of the questions."""
    group = parser.add_argument_group("questions: as options, any number of them, or as a file")
    parser.set_defaults(asked=None)
    for option, text, help in (
        ("--yes-no", "QUESTION", "ask for yes or no"),
        ("--choice", "QUESTION", "ask for one of the options that follow"),
        ("--option", "NAME", "an option of the --choice before it"),
        ("--score", "QUESTION", "ask for one of the levels that follow"),
        ("--level", "NAME", "a level of the --score before it, the lowest first"),
        ("--name", "NAME", "name of the question before it, in results (default: q1, q2, …)"),
    ):
        group.add_argument(option, action=_InOrder, dest="asked", metavar=text, help=help)
    group.add_argument("--questions", type=options.place, metavar="FILE", help="read the questions from a JSON file")
    how = parser.add_argument_group("how the questions are asked (default: as the file says)")
    how.add_argument("--joint", action="store_true", help="ask all questions in one canvas, which is faster")
    how.add_argument(
        "--repeat",
        type=options.number("the repeats", 0, MOST_REPEATS),
        metavar="N",
        help=f"re-check unsure answers N times, with new noise (default: {REPEATS})",
    )


def questions_of(args: argparse.Namespace) -> QuestionFile:
    """Returns the questions of the options, or of the file that they name, and their settings.

    Raises:
        SafelightError: there are none, or one is invalid.
    """
    if args.asked and args.questions is not None:
        raise SafelightError("--questions and options that ask a question exclude each other; leave out one")
    if args.questions is not None:
        asked = read_question_file(Path(args.questions))
    else:
        asked = QuestionFile(asked_in_order(args.asked or ()))
    options.require_utf8("".join(text for _, text in args.asked or ()), "a question")
    changes: dict[str, Any] = {"joint": True} if args.joint else {}
    if args.repeat is not None:
        changes["repeats"] = args.repeat
    return replace(asked, **changes)


@dataclass
class _Draft:
    """A question whose parts are still being collected."""

    kind: str
    text: str
    name: str
    parts: list[Option] = field(default_factory=list)

    def question(self) -> Question:
        if self.kind == "--yes-no":
            return YesNo(self.text, name=self.name)
        return (OneOf if self.kind == "--choice" else Score)(self.text, tuple(self.parts), self.name)


def asked_in_order(asked: Sequence[tuple[str, str]]) -> tuple[Question, ...]:
    """Returns the questions of options with their texts, in the order of the command line.

    Raises:
        SafelightError: there are none or too many, one is invalid, or an option stands before its question.
    """
    drafts: list[_Draft] = []
    for option, text in asked:
        if option in KINDS:
            drafts.append(_Draft(option, text, f"q{len(drafts) + 1}"))
        elif not drafts:
            raise SafelightError(f"{option} {quoted(text)} comes before any question; put it after its question")
        elif option == "--name":
            drafts[-1].name = text
        elif drafts[-1].kind != PARTS[option]:
            raise SafelightError(f"{option} {quoted(text)} belongs after a {PARTS[option]}")
        else:
            drafts[-1].parts.append(Option(text))
    if not drafts:
        raise SafelightError(
            "ask something with --yes-no, --choice, --score or --questions (see safelight decide --help)"
        )
    names = [draft.name for draft in drafts]
    for name in names:
        if names.count(name) > 1:
            raise SafelightError(f"two questions have the name {quoted(name)}; give each another --name")
    return tuple(draft.question() for draft in drafts)
