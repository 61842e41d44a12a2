"""``safelight decide``: answers questions about a text, pictures or each row of a table from one read of a canvas."""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from app.cli import options, running, terminal
from app.cli.deciding import Decided, deciding
from app.cli.stopping import STOPPED, stopping
from app.state.intervals import percent
from engine import SafelightError
from engine.errors import quoted
from engine.files import replacing
from engine.pictures import read_picture
from engine.tasks.decisions.answers import TypedAnswer
from engine.tasks.decisions.forms import REPEATS, QuestionFile, answer_to_json, read_question_file
from engine.tasks.decisions.questions import MAX_REPEATS, OneOf, Option, Question, Score, YesNo

DELIMITERS = ",;\t"
STATE_COLUMNS = ("state", "text")
DIGITS = 6  # decimals of a probability
ERROR = "error"  # the column with the reason why a row has no answers
FORMULA = re.compile(r"\s*[=+\-@＝＋－＠](?![\d.,]+\s*%?\s*$)")  # the beginning of one, unless it is a number
KINDS = ("--yes-no", "--choice", "--score")
PARTS = {"--option": "--choice", "--level": "--score"}  # the kind of question that each is a part of
EPILOG = f"""\
The answers are probabilities, one for each option, read from one denoising step. Confidence is the probability of the
likeliest option, times the share of all probability that is on the options (label_mass in JSON). A low share means that
the model would rather answer with something else.

A table is a CSV file with a header. --out gets its columns and those of the answers, row by row.

For a model on another machine: --model http://HOST:PORT/v1#MODEL, with its key in {options.KEY_VARIABLE}.

examples:
  safelight decide "Ann has 3 coins. Ben has 5." --yes-no "Does Ben have more coins than Ann?"
  safelight decide --file assets/examples/note.txt --choice "When does Zoe come?" --option workday --option weekend
  safelight decide "The number is 51." --score "How large is the number?" --level "0 to 49" --level "50 to 99" --json
  safelight decide --csv assets/examples/table.csv --questions assets/examples/questions.json --out answers.csv
  safelight decide --image photo.jpg --yes-no "Is the light on?" --model ~/models/diffusiongemma-26B-A4B-it
"""
BAR, MAX_NAME = 24, 44  # columns


def add_table(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a table, row by row")
    group.add_argument("--csv", type=options.place, metavar="FILE", help="the table; its first row names the columns")
    group.add_argument(
        "--state", metavar="COLUMN", help="the column that the questions are about (default: state, text or the only)"
    )
    group.add_argument("--out", type=options.place, metavar="FILE", help="write the table with the answers here")


def check_table(args: argparse.Namespace) -> None:
    """Rejects options that exclude each other.

    Raises:
        SafelightError: two options exclude each other; it names them.
    """
    if args.csv is None:
        if args.state is not None or args.out is not None:
            raise SafelightError("--state and --out are for tables; add --csv FILE")
    elif args.text is not None or args.file is not None or args.image:
        raise SafelightError("with --csv the texts come from the table; leave out TEXT, --file and --image")
    elif args.out is None and not args.json:
        raise SafelightError("say where the answers go: --out FILE, --json, or both")
    elif args.out is not None:
        options.require_folder(Path(args.out))


def decide_table(args: argparse.Namespace, asked: QuestionFile) -> int:
    rows, delimiter = _read(args.csv)
    column = _state_column(rows, args)
    decided: list[dict[str, Any]] = []
    with stopping() as stop, deciding(args, asked, stop) as decider, terminal.progress(f"Deciding {args.csv}") as show:
        results = () if decider is None else decider.decide(row[column] for row in rows)
        for place, (row, result) in enumerate(zip(rows, results, strict=False), 1):
            decided.append(row | _cells(result))
            if args.json:
                said = {ERROR: result} if isinstance(result, str) else {"answers": _answers(result)}
                running.print_json({"row": place + 1} | said)  # as a spreadsheet counts, with the header
            show(place / len(rows))
    if args.out is not None:
        _write(Path(args.out), decided, delimiter)
    if len(decided) < len(rows):
        terminal.say(f"stopped; {len(decided)} of {len(rows)} rows are done")
        return STOPPED
    if args.out is not None and not args.json:
        print(f"{len(rows)} rows decided: {args.out}")
    if failed := sum(bool(row[ERROR]) for row in decided):
        terminal.say(f"{failed} rows could not be decided; the column error says why")
    return 0


def _read(name: str) -> tuple[list[dict[str, str]], str]:
    """Returns a table's rows by their columns, and its delimiter, the one that its header has most.

    Raises:
        SafelightError: it cannot be read, has no rows, or a row has more cells than the header.
    """
    text = options.read_text(name)[0]
    header = text.partition("\n")[0]
    delimiter = max(DELIMITERS, key=header.count)
    apart = delimiter if delimiter in header else "\x1f"  # a single column may have all delimiters in its cells
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=apart, restval="", strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise SafelightError(f"{name}, line {reader.line_num}: it cannot be read ({error})") from None
    if not rows:
        raise SafelightError(f"{name} has no rows; its first row must have the names of the columns")
    for place, row in enumerate(rows, 2):
        if None in row:
            raise SafelightError(f"{name}, row {place}: it has more cells than the header; put texts between quotes")
    return rows, delimiter


def _state_column(rows: list[dict[str, str]], args: argparse.Namespace) -> str:
    columns = list(rows[0])
    wanted = STATE_COLUMNS if args.state is None else (args.state,)
    column = next((name for name in wanted if name in columns), None)
    if column is None and (args.state is not None or len(columns) > 1):
        names = ", ".join(map(quoted, columns[:20]))
        raise SafelightError(f"{args.csv} has no column {' or '.join(wanted)}; give --state one of these: {names}")
    return column or columns[0]


def _answers(decided: Decided) -> dict[str, Any]:
    return {answer.question.name: answer_to_json(answer) for answer in decided if not isinstance(answer, str)}


def _cells(decided: Decided) -> dict[str, Any]:
    """Returns the cells that a decision adds to its row."""
    if isinstance(decided, str):
        return {ERROR: decided}
    cells: dict[str, Any] = {}
    for answer in decided:
        name = answer.question.name
        cells[f"{name}_answer"] = answer.question.options[answer.best].name
        if isinstance(answer.question, Score):
            cells[f"{name}_score"] = round(answer.score, DIGITS)
        cells[f"{name}_probability"] = round(answer.probabilities[answer.best], DIGITS)
        cells[f"{name}_confidence"] = round(answer.confidence, DIGITS)
        cells[f"{name}_label_mass"] = round(answer.label_mass, DIGITS)
    return cells | {ERROR: ""}


def _write(path: Path, rows: list[dict[str, Any]], delimiter: str) -> None:
    """Writes the rows, with the byte order mark by which a spreadsheet knows the encoding."""
    columns = dict.fromkeys(name for row in rows for name in row if name != ERROR)
    with replacing(path) as target, target.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, [*columns, ERROR], restval="", delimiter=delimiter)
        writer.writeheader()
        writer.writerows({name: _guarded(cell) for name, cell in row.items()} for row in rows)


def _guarded(cell: Any) -> Any:
    """Puts an apostrophe before a text that a spreadsheet would run as a formula."""
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


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
        type=options.number("the repeats", 0, MAX_REPEATS),
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


def add(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "decide",
        help="answer typed questions about texts and pictures",
        description="Answer yes-or-no questions, choices and scores about a text, pictures, or each row of a table.",
        epilog=EPILOG,
    )
    parser.add_argument("text", metavar="TEXT", nargs="?", help="what the questions are about; - reads standard input")
    parser.add_argument("--file", type=options.place, metavar="FILE", help="read TEXT from a file")
    options.add_images(parser, "a picture that the questions are about, with or without a text")
    parser.add_argument("--json", action="store_true", help="print one JSON object, or one for each row of a table")
    add_questions(parser)
    add_table(parser)
    options.add_loading(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    check_table(args)
    asked = questions_of(args)
    if args.csv is not None:
        return decide_table(args, asked)
    state, pictures = _state(args), [read_picture(Path(name)) for name in args.image]
    with stopping() as stop, deciding(args, asked, stop, pictures) as decider:
        answers = None if decider is None else next(decider.decide([state], pictures), None)
        if decider is None or answers is None:
            terminal.say("stopped")
            return STOPPED
        name = decider.model.name
    if isinstance(answers, str):
        raise SafelightError(answers)
    if args.json:
        written = {answer.question.name: answer_to_json(answer) for answer in answers}
        running.print_json({"answers": written, "temperature": asked.temperature, "model": name})
    else:
        _show(answers)
        doubtful = [answer.question.name for answer in answers if not answer.argmax_is_label]
        if doubtful:
            terminal.say(f"the model wanted to answer with something else; do not trust {', '.join(doubtful)}")
    return 0


def _state(args: argparse.Namespace) -> str:
    """Returns the text that the questions are about; it may be empty if there are images.

    Raises:
        SafelightError: there is none, or two.
    """
    if args.text is not None and args.file is not None:
        raise SafelightError("TEXT and --file exclude each other; give one of them")
    if args.text is None and args.file is None and not args.image:
        raise SafelightError("say what the questions are about: TEXT, --file FILE, --image FILE or --csv FILE")
    source = args.file or ("-" if args.text == "-" else None)
    state = (args.text or "") if source is None else options.read_text(source)[0].rstrip("\n")
    if not state.strip() and not args.image:
        raise SafelightError("the text is empty; give the text that the questions are about")
    return options.require_utf8(state, "the text")


def _show(answers: tuple[TypedAnswer, ...]) -> None:
    """Prints each question with the probabilities of its options, the answer marked, and how far it can be trusted."""
    screen = terminal.console(sys.stdout)
    for answer in answers:
        screen.print(Text(answer.question.instructions, "bold"))
        frame = Table.grid(padding=(0, 2))
        frame.add_column(max_width=MAX_NAME, no_wrap=True)
        for place, (option, share) in enumerate(zip(answer.question.options, answer.probabilities, strict=True)):
            is_best = place == answer.best
            cells = (f"{'  → ' if is_best else '    '}{option.name}", f"{100 * share:5.1f} %", "█" * round(share * BAR))
            frame.add_row(*(Text(cell, "bold" if is_best else "dim") for cell in cells))
        screen.print(frame)
        words = f"confidence {percent(answer.confidence)}, {percent(answer.label_mass)} on the options"
        if isinstance(answer.question, Score):
            words += f", mean level {answer.score:.2f} of {len(answer.question.levels) - 1}"
        if answer.reads > 1:
            words += f", read {answer.reads} times, {percent(answer.agreement)} agree"
        screen.print(Text(f"    {words}\n", "dim"))
