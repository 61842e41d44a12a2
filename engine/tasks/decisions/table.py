"""Tables to decide row by row: CSV as spreadsheets write it, which text of a row is the state, which is a label.

Rows are counted as a spreadsheet shows them: the header is row 1.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from engine import files
from engine.errors import SafelightError, quoted
from engine.tasks.decisions.questions import OneOf, Question, YesNo

TABLE_BYTES = 64 * 2**20
MOST_ROWS = 100_000
MOST_COLUMNS = 256
MOST_CELL = 100_000  # characters
DELIMITERS = (",", ";", "\t")
STATE_COLUMNS = ("state", "text")
LABEL = "_label"  # behind a question's name
YES, NO = ("yes", "y", "true", "1"), ("no", "n", "false", "0")

_SNIFFED = 50  # rows that are looked at for the delimiter
_LONE = "\x1f"  # separates the cells of a table with one column, which may hold all delimiters
_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")


@dataclass(frozen=True)
class TableRow:
    """A row's number, from 2, and its cells, as many as there are columns."""

    number: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class CsvTable:
    """A table without its empty rows. ``digest`` is that of the file, as hex digits."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    delimiter: str = ","
    digest: str = ""

    def column(self, name: str) -> int:
        """A column's index.

        Raises:
            SafelightError: there is none of that name.
        """
        if name not in self.columns:
            raise SafelightError(
                f"{self.name} has no column {quoted(name)}; it has {', '.join(map(quoted, self.columns[:20]))}"
            )
        return self.columns.index(name)


def read_table(path: Path) -> CsvTable:
    """
    Raises:
        SafelightError: it cannot be read, is no table, or out of bounds; the sentence names the file and the row.
    """
    try:
        data = files.read_bytes(path, TABLE_BYTES)
    except FileNotFoundError:
        raise SafelightError(f"{path} is missing") from None
    except OSError as error:
        raise SafelightError(f"{path} cannot be read: {error.strerror or error}") from None
    return table_from(data, str(path))


def table_from(data: bytes, name: str) -> CsvTable:
    """A table from a file's bytes; errors as ``read_table``."""
    text = _decoded(data, name)
    delimiter = ""
    if found := re.match(r"sep=([,;\t|])\r?\n", text):  # how a spreadsheet may be told
        delimiter, text = found[1], text[found.end() :]
    delimiter = delimiter or _delimiter(text)
    records = _records(text, delimiter, name)
    header = next(records, None)
    if header is None:
        raise SafelightError(f"{name} is empty; its first row must have the names of the columns")
    columns = _columns(header.cells, name)
    rows: list[TableRow] = []
    for row in records:
        if any(row.cells[len(columns) :]):
            raise SafelightError(
                f"{name}, row {row.number}: it has {len(row.cells)} cells, the header {len(columns)}; "
                "put texts with the delimiter between quotes"
            )
        if len(rows) == MOST_ROWS:
            raise SafelightError(f"{name} has more than {MOST_ROWS:,} rows, the most that are read; split it")
        cells = row.cells[: len(columns)] + ("",) * (len(columns) - len(row.cells))
        rows.append(TableRow(row.number, cells))
    if not rows:
        raise SafelightError(f"{name} has no row below its header")
    return CsvTable(name, columns, tuple(rows), _shown(delimiter), hashlib.sha256(data).hexdigest())


def states_of(table: CsvTable, wanted: str | None = None) -> tuple[str, ...]:
    """The state of each row.

    Args:
        wanted: a column, or a template such as ``{name} has {coins} coins.``; None: the column "state", "text", or the
            only one.

    Raises:
        SafelightError: a column is missing, or a state is empty; the sentence names it.
    """
    if wanted is None:
        wanted = next((name for name in STATE_COLUMNS if name in table.columns), None)
        if wanted is None and len(table.columns) > 1:
            raise SafelightError(
                f"{table.name} has no column state or text; say which one the questions are about: "
                f"{', '.join(map(quoted, table.columns[:20]))}"
            )
    if wanted is None or wanted in table.columns:
        place = 0 if wanted is None else table.columns.index(wanted)
        used, states = [place], [row.cells[place] for row in table.rows]
    elif "{" in wanted:
        pieces = _pieces(table, wanted)
        used = [piece for piece in pieces if isinstance(piece, int)]
        states = [
            "".join(row.cells[piece] if isinstance(piece, int) else piece for piece in pieces) for row in table.rows
        ]
    else:
        table.column(wanted)
    for row in table.rows:
        if not any(row.cells[place].strip() for place in used):
            where = " and ".join(quoted(table.columns[place]) for place in used)
            raise SafelightError(
                f"{table.name}, row {row.number}: the state is empty ({where}); fill it, or remove the row"
            )
    return tuple(states)


def label_column(table: CsvTable, question: Question) -> int | None:
    """The column with the right answers to a question: that of its name, with or without ``_label`` behind it."""
    names = (question.name + LABEL, question.name)
    return next((table.columns.index(name) for name in names if name in table.columns), None)


def labels_of(table: CsvTable, question: Question) -> tuple[int | None, ...]:
    """The index of the right option in each row, None where none is given.

    Raises:
        SafelightError: there is no such column, or a label is no option; the sentence names the row.
    """
    place = label_column(table, question)
    if place is None:
        raise SafelightError(
            f"{table.name} has no right answers to {quoted(question.name)}; name their column so, or "
            f"{quoted(question.name + LABEL)}"
        )
    labels = []
    for row in table.rows:
        text = row.cells[place].strip()
        found = option_of(question, text) if text else None
        if text and found is None:
            options = ", ".join(quoted(option.name) for option in question.options)
            raise SafelightError(
                f"{table.name}, row {row.number}: {quoted(text)} is no answer to {quoted(question.name)}; "
                f"there are {options}"
            )
        labels.append(found)
    return tuple(labels)


def option_of(question: Question, text: str) -> int | None:
    """The option that a text names, as an index: a score's by its number, too, yes and no also as TRUE and FALSE."""
    folded = text.strip().casefold()
    names = [option.name.strip() for option in question.options]
    if text.strip() in names:
        return names.index(text.strip())
    names = [name.casefold() for name in names]
    if isinstance(question, YesNo):
        return 0 if folded in YES else 1 if folded in NO else None
    if names.count(folded) == 1:
        return names.index(folded)
    is_level = not isinstance(question, OneOf) and re.fullmatch(r"[0-9]", folded)
    return int(folded) if is_level and int(folded) < len(names) else None


def _decoded(data: bytes, name: str) -> str:
    """The text of a file, by its byte order mark; UTF-8 without one."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise SafelightError(f"{name} is neither UTF-8 nor UTF-16 text; save it as CSV in UTF-8") from None
    if "\0" in text:
        raise SafelightError(f"{name} holds characters that no table has; save it as CSV in UTF-8")
    return text


def _delimiter(text: str) -> str:
    """That which gives most rows as many cells as the header, and then the most."""

    def merit(delimiter: str) -> tuple[float, int]:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        try:
            lengths = [len(cells) for cells in islice(reader, _SNIFFED) if cells]
        except csv.Error:
            return 0.0, 0
        if not lengths or lengths[0] == 1:
            return 0.0, 1
        return lengths.count(lengths[0]) / len(lengths), lengths[0]

    best = max(DELIMITERS, key=merit)
    return best if merit(best)[1] > 1 else _LONE


def _records(text: str, delimiter: str, name: str) -> Iterator[TableRow]:
    """All rows that are not empty, the header first."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    number = 0
    while True:
        number += 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise SafelightError(f"{name}, row {number}: it cannot be read ({error})") from None
        for cell in cells:
            if len(cell) > MOST_CELL:
                raise SafelightError(
                    f"{name}, row {number}: a cell has {len(cell):,} characters; at most {MOST_CELL:,} are read"
                )
        if any(cell.strip() for cell in cells):
            yield TableRow(number, tuple(cells))


def _columns(cells: tuple[str, ...], name: str) -> tuple[str, ...]:
    if len(cells) > MOST_COLUMNS:
        raise SafelightError(f"{name} has {len(cells):,} columns; at most {MOST_COLUMNS} are read")
    columns = tuple(cell.strip() for cell in cells)
    for column in columns:
        if column and columns.count(column) > 1:
            raise SafelightError(f"{name} has the column {quoted(column)} twice; give each another name")
    return columns


def _pieces(table: CsvTable, template: str) -> list[str | int]:
    """A template as texts and the indices of columns between them."""
    pieces: list[str | int] = []
    end = 0
    for found in _PLACE.finditer(template):
        pieces.append(template[end : found.start()])
        pieces.append(found[0][0] if found[1] is None else table.column(found[1].strip()))
        end = found.end()
    if not any(isinstance(piece, int) for piece in pieces):
        raise SafelightError(f"the state {quoted(template)} names no column; write one as {{column}}")
    return [*pieces, template[end:]]


def _shown(delimiter: str) -> str:
    return DELIMITERS[0] if delimiter == _LONE else delimiter
