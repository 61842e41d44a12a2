"""Tables to decide row by row: CSV as spreadsheets write it, with the cells of the state and the labels.

Rows are counted as a spreadsheet shows them: the header is row 1.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PureWindowsPath

from engine import files
from engine.errors import SafelightError, quoted
from engine.pictures import Picture, read_picture
from engine.tasks.decisions.questions import OneOf, Question, YesNo

TABLE_BYTES = 64 * 2**20
MOST_ROWS = 100_000
MOST_COLUMNS = 256
MOST_CELL = 100_000  # characters
DELIMITERS = (",", ";", "\t")
STATE_COLUMNS = ("state", "text")
LABEL = "_label"  # suffix of a question's name
YES, NO = ("yes", "y", "true", "1"), ("no", "n", "false", "0")

_SNIFFED = 50  # rows that are read to find the delimiter
_LONE = "\x1f"  # stands for no delimiter in a table with one column, whose cells may contain all delimiters
_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")


@dataclass(frozen=True)
class TableRow:
    """A row's number, from 2, and its cells, one per column."""

    number: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class CsvTable:
    """A table without its empty rows. ``name`` is its path."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    delimiter: str = ","

    def column(self, name: str) -> int:
        """Returns a column's index.

        Raises:
            SafelightError: there is none of that name.
        """
        if name not in self.columns:
            raise SafelightError(
                f"{self.name} has no column {quoted(name)}; it has {', '.join(map(quoted, self.columns[:20]))}"
            )
        return self.columns.index(name)


def read_table(path: Path) -> CsvTable:
    """Reads a table.

    Raises:
        SafelightError: it cannot be read, is not a table, or is out of bounds; the sentence names the file and the row.
    """
    try:
        data = files.read_bytes(path, TABLE_BYTES)
    except FileNotFoundError:
        raise SafelightError(f"{path} is missing") from None
    except OSError as error:
        raise SafelightError(f"{path} cannot be read: {error.strerror or error}") from None
    return table_from(data, str(path))


def table_from(data: bytes, name: str) -> CsvTable:
    """Reads a table from a file's bytes; errors as in ``read_table``."""
    text = _decoded(data, name)
    delimiter = ""
    if found := re.match(r"sep=([,;\t|])\r?\n", text):  # the line by which a file names its delimiter to a spreadsheet
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
        raise SafelightError(f"{name} has only a header; add rows")
    return CsvTable(name, columns, tuple(rows), _shown(delimiter))


@dataclass(frozen=True)
class TableState:
    """The text, picture or both that the questions about a row are about. ``picture`` is a path relative to
    ``folder``."""

    text: str
    picture: str = ""
    folder: Path = Path()

    def pictures(self) -> tuple[Picture, ...]:
        """Reads the picture; empty if none is named.

        Raises:
            SafelightError: it is outside the folder, where a table of unknown origin may not point; it cannot be read,
                is
                too large or damaged.
        """
        if not self.picture:
            return ()
        path = PureWindowsPath(self.picture)  # recognises drives and backslashes, which a POSIX path does not
        if path.drive or path.root or ".." in path.parts:
            raise SafelightError(
                f"the picture {quoted(self.picture)} is not below the table's folder; put it there, and write its path "
                "from there"
            )
        return (read_picture(self.folder / self.picture),)


def states_of(table: CsvTable, wanted: str | None = None, pictures: str | None = None) -> tuple[TableState, ...]:
    """Returns the state of each row.

    Args:
        wanted: a column, or a template such as ``{name} has {coins} coins.``; None: the column "state", "text", or the
            only one; with pictures, none of these is required. An empty text: no column, only pictures.
        pictures: the column that names a picture's file in some rows or all, relative to the table's folder.

    Raises:
        SafelightError: a column is missing, or a row has neither text nor picture; the sentence names it.
    """
    shown = None if pictures is None else table.column(pictures)
    pieces = _pieces_of(table, wanted, shown)
    used = [piece for piece in pieces if isinstance(piece, int)]
    states, folder = [], Path(table.name).parent
    for row in table.rows:
        text = "".join(row.cells[piece] if isinstance(piece, int) else piece for piece in pieces)
        named = "" if shown is None else row.cells[shown].strip()
        if not named and not any(row.cells[place].strip() for place in used):
            where = " and ".join(quoted(table.columns[place]) for place in (*used, *([] if shown is None else [shown])))
            raise SafelightError(
                f"{table.name}, row {row.number}: the state is empty ({where}); fill it, or remove the row"
            )
        states.append(TableState(text, named, folder))
    return tuple(states)


def _pieces_of(table: CsvTable, wanted: str | None, pictures: int | None) -> Sequence[str | int]:
    """Returns the parts of a state's text: texts and the indices of columns. Arguments as in ``states_of``."""
    if wanted == "" and pictures is not None:
        return []
    if wanted is None:
        found = next((table.columns.index(name) for name in STATE_COLUMNS if name in table.columns), None)
        if found is not None:
            return [found]
        if pictures is not None:
            return []
        if len(table.columns) > 1:
            raise SafelightError(
                f"{table.name} has no column state or text; choose the one that the questions are about: "
                f"{', '.join(map(quoted, table.columns[:20]))}"
            )
        return [0]
    if wanted not in table.columns and "{" in wanted:
        return _pieces(table, wanted)
    return [table.column(wanted)]


def label_column(table: CsvTable, question: Question) -> int | None:
    """Returns the column with the right answers to a question: that of its name, with or without ``_label``."""
    names = (question.name + LABEL, question.name)
    return next((table.columns.index(name) for name in names if name in table.columns), None)


def option_of(question: Question, text: str) -> int | None:
    """Returns the index of the option that a text names. Scores may be named by number, yes and no as TRUE and
    FALSE."""
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
    """Decodes a file's text by its byte order mark; UTF-8 without one."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise SafelightError(f"{name} is neither UTF-8 nor UTF-16 text; save it as CSV in UTF-8") from None
    if "\0" in text:
        raise SafelightError(f"{name} contains binary data; save it as CSV in UTF-8")
    return text


def _delimiter(text: str) -> str:
    """Finds the delimiter that gives the most rows as many cells as the header, and among those the most cells."""

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
    """Yields all rows that are not empty, the header first."""
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
    """Splits a template into texts and the indices of columns between them."""
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
