"""Reads a puzzle from text in any common format, without checking that it can be solved. Knows neither Qt nor torch."""

from __future__ import annotations

import re
import unicodedata

from app.state.sudoku.board import BLANK, SIZE, Board
from app.system.i18n import tr, trn
from engine.tasks import sudoku


class PasteError(ValueError):
    """Raised for a text that is not a puzzle; the message is one sentence in the user's language."""


MOST_TEXT = 20_000  # characters; NFKC normalisation turns some into eighteen
_BLANKS = frozenset("0._*?xX·-")
_IGNORED = frozenset("|+!:'\"")
_RULES = frozenset("-+=|*:.' ")
_CONTROL_MARKS = str.maketrans("", "", "\ufeff\u200b\u200e\u200f")


def read(text: str) -> Board:
    """Reads the first puzzle of a text.

    The text may have 81 characters or nine lines; rulers and spaces; commas, semicolons or tabs as separators, with an
    empty field for a blank; ``#`` comments and ``[Sections]``. Blanks are ``0 . _ * ? x -``. Digits may be in conflict,
    which ``check`` reports.

    Raises:
        PasteError: the text is not a puzzle.
    """
    if len(text) > MOST_TEXT:
        raise PasteError(tr("That is too long for a puzzle; paste 81 characters, 0 or . for a blank."))
    lines = _lines(text)
    if not lines:
        raise PasteError(tr("There is no text to paste; copy a puzzle of 81 characters first."))
    alone = next((cells for line in lines for cells in _fields_of_81(line)), None)
    if alone is not None:
        return Board(alone)
    read_rows = [row for line in lines if (row := _row(line))]
    # A line of hyphens is a ruler or a row of blanks. It counts as a row only if there are too few rows without it.
    for rows in (
        [row for row, ruler in read_rows if not ruler],
        [row for row, _ in read_rows if len(row) == 9],
        [row.replace("-", "") for row, _ in read_rows],
    ):
        if sum(map(len, rows)) == SIZE:
            return Board("".join(BLANK if cell in _BLANKS else cell for row in rows for cell in row))
    count = sum(len(row) for row, ruler in read_rows if not ruler)
    raise PasteError(
        trn("The text has {count} cell; a puzzle has 81.", "The text has {count} cells; a puzzle has 81.", count)
    )


def _lines(text: str) -> list[str]:
    """Returns the lines of the first section of a text, without comments and headings."""
    kept: list[str] = []
    plain = unicodedata.normalize("NFKC", text.replace("\u00b7", ".")).translate(_CONTROL_MARKS)
    for line in plain.splitlines():
        bare = line.partition("#")[0].strip("\r\n ")
        if bare.startswith("[") and bare.endswith("]"):
            if kept:
                break
        elif bare:
            kept.append(bare)
    return kept


def _fields_of_81(line: str) -> list[str]:
    """Returns the fields of a line that are 81 cells: a puzzle, and perhaps its solution; other fields hold a name."""
    found = []
    for field in re.split(r"[,;\t]", line) + line.split():
        bare = field.strip().strip("\"'")
        if len(bare) == SIZE and all(cell in _BLANKS or cell in sudoku.DIGITS for cell in bare):
            found.append("".join(BLANK if cell in _BLANKS else cell for cell in bare))
    return found


def _is_rule(line: str) -> bool:
    """True if a line is certainly a ruler without cells."""
    if not set(line) <= _RULES or not set(line) & {"-", "="}:
        return False
    return bool(set(line) & {"+", "="}) or sum(char in _BLANKS for char in line) != 9


def _row(line: str) -> tuple[str, bool] | None:
    """Returns the cells of a line, and True if it may be a ruler; None if it is certainly a ruler or has no cells.

    Raises:
        PasteError: the line has a character that is not part of a puzzle.
    """
    if _is_rule(line):
        return None
    separator = next((mark for mark in ",;\t" if mark in line), None)
    if separator is not None:
        fields = [field.strip().strip("\"'") for field in line.split(separator)]
        if len(fields) % 9 == 1 and not fields[-1]:
            fields.pop()  # the line ends in a separator
        line = "".join(field or BLANK for field in fields)
    cells = "".join(char for char in line if not (char.isspace() or char in _IGNORED or "\u2500" <= char <= "\u257f"))
    strange = next((char for char in cells if char not in _BLANKS and char not in sudoku.DIGITS), None)
    if strange is not None:
        raise PasteError(
            tr(
                "The text has the character {character}; a puzzle has digits, 0 or . for a blank.",
                character=repr(strange),
            )
        )
    return (cells, set(cells) == {"-"}) if cells else None
