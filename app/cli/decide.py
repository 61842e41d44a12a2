"""``safelight decide``: answers questions about a text, pictures or each row of a table from one read of a canvas."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.table import Table
from rich.text import Text

from app.cli import decide_table, options, running, terminal
from app.cli.decide_questions import add_questions, questions_of
from app.cli.deciding import deciding
from app.cli.stopping import STOPPED, stopping
from app.state.intervals import percent
from engine import SafelightError
from engine.pictures import read_picture
from engine.tasks.decisions.answers import TypedAnswer
from engine.tasks.decisions.forms import answer_to_json
from engine.tasks.decisions.questions import Score

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
BAR, MOST_NAME = 24, 44  # columns


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
    decide_table.add_options(parser)
    options.add_loading(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    decide_table.check(args)
    asked = questions_of(args)
    if args.csv is not None:
        return decide_table.run(args, asked)
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
        frame.add_column(max_width=MOST_NAME, no_wrap=True)
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
