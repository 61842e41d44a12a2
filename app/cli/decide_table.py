"""``safelight decide --csv``: reads a table, and writes it with answers."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from app.cli import options, running, terminal
from app.cli.deciding import Decider, StateResult, deciding
from app.cli.stopping import STOPPED, stopping
from engine import SafelightError
from engine.files import explained
from engine.tasks.decisions.forms import answer_to_json
from engine.tasks.decisions.question_file import QuestionFile, write_question_file
from engine.tasks.decisions.results import header_line, result_columns, result_line
from engine.tasks.decisions.table import (
    CsvTable,
    TableRow,
    TableState,
    label_column,
    option_of,
    read_table,
    states_of,
)

MOST_FAILURES = 20  # consecutive failed runs after which the command gives up


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a table, row by row")
    group.add_argument("--csv", type=options.place, metavar="FILE", help="the table; its first row names the columns")
    group.add_argument(
        "--state",
        metavar="COLUMN",
        help='the column that the questions are about, or a text such as "{name}: {note}" '
        "(default: state, text or the only one)",
    )
    group.add_argument(
        "--image-column",
        metavar="COLUMN",
        help="the column with a picture for each row: its path from the table's folder",
    )
    group.add_argument("--out", type=options.place, metavar="FILE", help="write the table with the answers here")


def check(args: argparse.Namespace) -> None:
    """Rejects options that exclude each other.

    Raises:
        SafelightError: two options exclude each other; it names them.
    """
    if args.csv is None:
        for name in ("state", "image-column", "out"):
            if getattr(args, name.replace("-", "_")) is not None:
                raise SafelightError(f"--{name} is for tables; add --csv FILE")
        return
    if args.text is not None or args.file is not None:
        raise SafelightError("with --csv the texts come from the table; leave out TEXT and --file")
    if args.image:
        raise SafelightError("--image is for a single text; for the pictures of a table give --image-column")
    if args.out is None and not args.json:
        raise SafelightError("say where the answers go: --out FILE, --json, or both")
    if args.out is not None:
        out = Path(args.out)
        options.require_folder(out)
        if out.resolve() == Path(args.csv).resolve():
            raise SafelightError("--out and --csv are the same file; give --out another name")
        if out.exists() and not out.is_file():
            raise SafelightError(f"{out} is not a file. Choose another place")


def run(args: argparse.Namespace, asked: QuestionFile) -> int:
    table = read_table(Path(args.csv))
    states = states_of(table, args.state, args.image_column)
    columns = result_columns(table, asked.questions, is_repeated=asked.repeats > 0)
    with stopping() as stop, deciding(args, asked, stop, args.image_column is not None) as decider:
        if decider is None:
            terminal.say("stopped")
            return STOPPED
        job = _Job(args, asked, table, columns, decider)
        if args.out is None:
            job.run(states, None)
        else:
            try:
                with Path(args.out).open("w", encoding="utf-8", newline="", buffering=1) as file:  # a line at a time
                    file.write(header_line(columns, table.delimiter))
                    job.run(states, file)
            except BrokenPipeError:  # of standard output
                raise
            except OSError as error:
                raise explained(error, Path(args.out)) from error
    if job.done < len(states):
        terminal.say(f"stopped; {job.done} of {len(states)} rows are done")
        return STOPPED
    if args.out is not None and not args.json:
        job.report()
    if args.save is not None:
        write_question_file(Path(args.save), replace(asked, state=""))
    return 0


class _Job:
    """Decides a table row by row and writes a file, JSON lines, or both."""

    def __init__(
        self,
        args: argparse.Namespace,
        asked: QuestionFile,
        table: CsvTable,
        columns: Sequence[str],
        decider: Decider,
    ) -> None:
        self._args, self._asked, self._table, self._columns, self._decider = args, asked, table, columns, decider
        labels = [(question.name, label_column(table, question)) for question in asked.questions]
        self._labels = {name: place for name, place in labels if place is not None}
        self._verdicts: dict[str, list[bool]] = {name: [] for name in self._labels}  # by question, of labelled rows
        self._problems = 0
        self._seconds = 0.0
        self.done = 0  # rows

    def run(self, states: Sequence[TableState], file: TextIO | None) -> None:
        """Decides the rows, until the decider stops.

        Raises:
            SafelightError: ``MOST_FAILURES`` consecutive runs failed, so something else is wrong.
        """
        failed, began = 0, time.perf_counter()  # consecutive failures
        with terminal.progress(f"Deciding {len(states)} rows") as show:
            results = self._decider.decide((state.text, state.pictures) for state in states)
            for row, result in zip(self._table.rows, results, strict=False):
                self._write(file, row, result)
                failed = failed + 1 if result.is_run_failure else 0
                if failed == MOST_FAILURES:
                    raise SafelightError(f"{failed} rows in a row failed up to row {row.number}: {result.problem}")
                self.done += 1
                show(self.done / len(states))
        self._seconds = time.perf_counter() - began

    def _write(self, file: TextIO | None, row: TableRow, result: StateResult) -> None:
        answers = () if result.problem else result.answers(self._asked)
        self._problems += bool(result.problem)
        for answer in answers:
            name = answer.question.name
            right = option_of(answer.question, row.cells[self._labels[name]]) if name in self._labels else None
            if right is not None:
                self._verdicts[name].append(right == answer.best)
        if file is not None:
            is_repeated = self._asked.repeats > 0
            found = result.problem or answers
            file.write(result_line(self._table, row, found, len(self._columns), is_repeated=is_repeated))
        if self._args.json:
            written = {answer.question.name: answer_to_json(answer) for answer in answers}
            running.print_json({"row": row.number} | ({"answers": written} if written else {"error": result.problem}))

    def report(self) -> None:
        """Prints what was decided, and how many answers were right if the table has the right ones."""
        print(f"{self.done} rows decided, {self.done / self._seconds:.1f} a second: {self._args.out}")
        for name, verdicts in self._verdicts.items():
            if verdicts:
                share = f"{100 * sum(verdicts) / len(verdicts):.1f} %"
                print(f"{terminal.printable(name)}: {share} of {len(verdicts)} labelled rows right")
        if self._problems:
            terminal.say(f"{self._problems} rows could not be decided; the column error says why")
