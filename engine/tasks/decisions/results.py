"""Tables with answers: the columns that decisions add, as CSV that a spreadsheet opens and does not run.

UTF-8 with a byte order mark and CRLF. Texts are in quotes and numbers are not, so that a spreadsheet with another
delimiter does not split texts.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from engine.errors import SafelightError, quoted
from engine.tasks.decisions.answers import TypedAnswer
from engine.tasks.decisions.questions import Question, Score
from engine.tasks.decisions.table import CsvTable, TableRow

BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
ERROR = "error"  # the column with the reason why a row has no answers
ANSWER = "_answer"  # suffixes of a question's name
DIGITS = 6  # decimals of a probability

RowResult: TypeAlias = tuple[TypedAnswer, ...] | str
"""The result of a row: an answer to each question, or the reason why there is none."""

_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]")
_NUMBER = re.compile(r"\s*[+-]?(\d+([.,]\d+)*|[.,]\d+)([eE][+-]?\d+)?\s*%?\s*", re.ASCII)


def result_columns(table: CsvTable, questions: Sequence[Question], *, is_repeated: bool) -> tuple[str, ...]:
    """Returns the names of all columns: the table's own, some for each question, and that of errors.

    Raises:
        SafelightError: the table already has one of these columns.
    """
    added = []
    for question in questions:
        kinds = [ANSWER, *(["_score"] if isinstance(question, Score) else []), "_probability", "_confidence"]
        kinds += ["_label_mass", *(["_spread", "_agreement"] if is_repeated else [])]
        added += [question.name + kind for kind in kinds]
    added.append(ERROR)
    columns = [*table.columns, *added]
    for name in added:
        if columns.count(name) > 1:
            raise SafelightError(
                f"the results would have the column {quoted(name)} twice; rename it in {table.name}, or the question"
            )
    return tuple(columns)


def result_line(table: CsvTable, row: TableRow, result: RowResult, columns: int, *, is_repeated: bool) -> str:
    """Returns a row with its results as a line of CSV, ``columns`` cells wide."""
    cells: list[str | float] = list(row.cells)
    if isinstance(result, str):
        cells += [""] * (columns - len(cells) - 1)
        return _line([*cells, result], table.delimiter)
    for answer in result:
        numbers = [answer.probabilities[answer.best], answer.confidence, answer.label_mass]
        if is_repeated:
            numbers += [answer.spread[answer.best] if answer.spread else 0.0, answer.agreement]
        if isinstance(answer.question, Score):
            numbers.insert(0, answer.score)
        cells += [answer.question.options[answer.best].name, *(round(number, DIGITS) for number in numbers)]
    return _line([*cells, ""], table.delimiter)


def header_line(columns: Sequence[str], delimiter: str) -> str:
    """Returns the first line of a table, with the byte order mark by which a spreadsheet recognises the encoding."""
    return BYTE_ORDER_MARK + _line(columns, delimiter)


def guarded(text: str) -> str:
    """Puts an apostrophe before a text that a spreadsheet would run as a formula; numbers are unchanged."""
    return "'" + text if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def _line(cells: Iterable[str | float], delimiter: str) -> str:
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n")
    writer.writerow([guarded(cell) if isinstance(cell, str) else cell for cell in cells])
    return file.getvalue()
