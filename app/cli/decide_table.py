"""``safelight decide --csv``: reads a table, and writes it with answers."""

from __future__ import annotations

import argparse
import csv
import io
import re
from pathlib import Path
from typing import Any

from app.cli import options, running, terminal
from app.cli.deciding import Decided, deciding
from app.cli.stopping import STOPPED, stopping
from engine import SafelightError
from engine.errors import quoted
from engine.files import replacing
from engine.tasks.decisions.forms import QuestionFile, answer_to_json
from engine.tasks.decisions.questions import Score

DELIMITERS = ",;\t"
STATE_COLUMNS = ("state", "text")
DIGITS = 6  # decimals of a probability
ERROR = "error"  # the column with the reason why a row has no answers
FORMULA = re.compile(r"\s*[=+\-@＝＋－＠](?![\d.,]+\s*%?\s*$)")  # the beginning of one, unless it is a number


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a table, row by row")
    group.add_argument("--csv", type=options.place, metavar="FILE", help="the table; its first row names the columns")
    group.add_argument(
        "--state", metavar="COLUMN", help="the column that the questions are about (default: state, text or the only)"
    )
    group.add_argument("--out", type=options.place, metavar="FILE", help="write the table with the answers here")


def check(args: argparse.Namespace) -> None:
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


def run(args: argparse.Namespace, asked: QuestionFile) -> int:
    rows, delimiter = _read(args.csv)
    column = _state_column(rows, args)
    decided: list[dict[str, Any]] = []
    with stopping() as stop, deciding(args, asked, stop) as decider, terminal.progress(f"Deciding {args.csv}") as show:
        results = () if decider is None else decider.decide(row[column] for row in rows)
        for place, (row, found) in enumerate(zip(rows, results, strict=False), 1):
            decided.append(row | _cells(found))
            if args.json:
                said = {ERROR: found} if isinstance(found, str) else {"answers": _answers(found)}
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
    found = next((name for name in wanted if name in columns), None)
    if found is None and (args.state is not None or len(columns) > 1):
        names = ", ".join(map(quoted, columns[:20]))
        raise SafelightError(f"{args.csv} has no column {' or '.join(wanted)}; give --state one of these: {names}")
    return found or columns[0]


def _answers(found: Decided) -> dict[str, Any]:
    return {answer.question.name: answer_to_json(answer) for answer in found if not isinstance(answer, str)}


def _cells(found: Decided) -> dict[str, Any]:
    """Returns the cells that a decision adds to its row."""
    if isinstance(found, str):
        return {ERROR: found}
    cells: dict[str, Any] = {}
    for answer in found:
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
