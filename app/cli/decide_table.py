"""``safelight decide --csv``: reads a table, and writes it with answers."""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.cli import options, running, terminal
from app.cli.deciding import Decider, StateResult, deciding
from app.cli.part_file import PartFile
from app.cli.stopping import STOPPED, stopping
from engine import SafelightError
from engine.tasks.decisions.forms import answer_to_json
from engine.tasks.decisions.question_file import QuestionFile, write_question_file
from engine.tasks.decisions.questions import Question
from engine.tasks.decisions.results import ANSWER, guarded, header_line, result_columns, result_line
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


def run(args: argparse.Namespace, asked: QuestionFile) -> int:
    table = read_table(Path(args.csv))
    states = states_of(table, args.state, args.image_column)
    is_repeated = asked.repeats > 0
    columns = result_columns(table, asked.questions, is_repeated=is_repeated)
    with stopping() as stop, deciding(args, asked, stop, args.image_column is not None) as decider:
        if decider is None:
            terminal.say("stopped")
            return STOPPED
        job = _Job(args, asked, table, states, columns, decider)
        if args.out is None:
            done = job.run(None, 0)
        else:
            made_from = _made_from(asked, table, states, decider)
            with PartFile(Path(args.out), header_line(columns, table.delimiter), made_from) as part:
                if part.records:
                    terminal.say(f"going on after {part.records} of {len(states)} rows")
                done = job.run(part, part.records)
                if done == len(states):
                    lines = _read_back(part, table.delimiter)
                    part.finish()
                    job.report(lines)
    if done < len(states):
        kept = f"{done} of {len(states)} rows are done"
        terminal.say(f"stopped; {kept}" + ("" if args.out is None else "; run the same command again to go on"))
        return STOPPED
    if args.save is not None:
        write_question_file(Path(args.save), replace(asked, state=""))
    return 0


@dataclass
class _Job:
    """Decides a table row by row and writes a file, JSON lines, or both."""

    args: argparse.Namespace
    asked: QuestionFile
    table: CsvTable
    states: Sequence[TableState]
    columns: Sequence[str]
    decider: Decider
    decided: int = 0  # number of rows decided by this command
    problems: int = 0
    seconds: float = 0.0

    def run(self, part: PartFile | None, done: int) -> int:
        """Decides the rows after the first ``done``; returns the new number of decided rows.

        Raises:
            SafelightError: ``MOST_FAILURES`` consecutive runs failed, so something else is wrong; those rows are not
                decided.
        """
        failed: list[tuple[TableRow, StateResult]] = []  # consecutive failures that are not written yet
        began = time.perf_counter()
        with terminal.progress(f"Deciding {len(self.states)} rows") as show:
            show(done / len(self.states))
            for result in self.decider.decide((state.text, state.pictures) for state in self.states[done:]):
                row = self.table.rows[done + len(failed)]
                if result.is_run_failure:
                    failed.append((row, result))
                    if len(failed) == MOST_FAILURES:
                        raise SafelightError(
                            f"{MOST_FAILURES} rows in a row failed from row {failed[0][0].number} on: {result.problem} "
                            "Fix it, then run the same command again to go on"
                        )
                    continue
                for one in (*failed, (row, result)):
                    self._write(part, *one)
                done += len(failed) + 1
                failed.clear()
                show(done / len(self.states))
            if not self.decider.stop.is_set():
                for one in failed:
                    self._write(part, *one)
                done += len(failed)
        self.seconds = time.perf_counter() - began
        return done

    def _write(self, part: PartFile | None, row: TableRow, result: StateResult) -> None:
        answers = () if result.problem else result.answers(self.asked)
        self.decided += 1
        self.problems += bool(result.problem)
        if part is not None:
            line = result_line(
                self.table,
                row,
                result.problem or answers,
                len(self.columns),
                is_repeated=self.asked.repeats > 0,
            )
            part.append(line)
        if self.args.json:
            written = {answer.question.name: answer_to_json(answer) for answer in answers}
            running.print_json({"row": row.number} | ({"answers": written} if written else {"error": result.problem}))

    def report(self, lines: Sequence[Sequence[str]]) -> None:
        """Prints what was decided, and how many answers were right if the table has the right ones."""
        if self.args.json:
            return
        speed = f", {self.decided / self.seconds:.1f} a second" if self.decided and self.seconds else ""
        print(f"{len(self.states)} rows decided{speed}: {self.args.out}")
        for question in self.asked.questions:
            right, of = right_answers(self.table, self.columns, lines, question)
            if of:
                print(f"{terminal.printable(question.name)}: {100 * right / of:.1f} % of {of} labelled rows right")
        if self.problems:
            terminal.say(f"{self.problems} rows could not be decided; the column error says why")


def right_answers(
    table: CsvTable, columns: Sequence[str], lines: Sequence[Sequence[str]], question: Question
) -> tuple[int, int]:
    """Counts the right answers of a finished table, and the rows whose right answer is known."""
    label = label_column(table, question)
    if label is None:
        return 0, 0
    place = columns.index(question.name + ANSWER)
    right = of = 0
    for row, line in zip(table.rows, lines, strict=True):
        known = option_of(question, row.cells[label])
        if known is not None and line[place]:
            of += 1
            right += line[place] == guarded(question.options[known].name)
    return right, of


def _read_back(part: PartFile, delimiter: str) -> list[list[str]]:
    """Returns the cells of all records without the header."""
    return list(csv.reader(io.StringIO(part.done().decode("utf-8-sig"), newline=""), delimiter=delimiter))[1:]


def _made_from(asked: QuestionFile, table: CsvTable, states: Sequence[TableState], decider: Decider) -> dict[str, str]:
    """Returns digests of everything the answers depend on, by names for people; pictures count by their file names
    only."""
    model = decider.model
    return {
        "table": table.digest,
        "state, or size of images": _digest([decider.image_tokens, *((one.text, one.picture) for one in states)]),
        "set of questions, or another way to ask them": _digest(asked.to_json()),
        "model or adapter": _digest([model.path_or_id, model.fingerprint, model.adapter]),
    }


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
